mod documents;
mod headers;
