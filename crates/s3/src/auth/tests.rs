mod form;
mod refusals;
mod round_trip;
pub(crate) mod sent_request;
mod vectors;
