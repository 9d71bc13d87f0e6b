mod refusals;
mod round_trip;
pub(crate) mod sent;
mod vectors;
