//! removing
