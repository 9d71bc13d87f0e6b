//! One client cannot exhaust the resources that others need.

mod documents;
mod h2;
mod readers;
