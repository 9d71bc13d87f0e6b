//! Sessions of one volume in this process, over real sockets.

mod damage;
mod fixture;
mod floods;
mod links;
mod places;
mod strangers;
