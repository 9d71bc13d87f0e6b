mod object;
mod policy;
mod reader;
