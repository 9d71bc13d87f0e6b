//! The error of a command.

pub(crate) use ::problem::Problem;
