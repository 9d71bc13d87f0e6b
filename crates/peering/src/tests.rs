//! Sessions of one volume in this process, over real sockets.

mod damage;
mod fixture;
mod floods;
mod links;
mod owners;
mod places;
mod strangers;
