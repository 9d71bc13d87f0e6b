use std::net::Ipv4Addr;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};

use super::*;
use crate::hosts::{HostLimits, Hosts};

fn response(kibibytes: usize) -> Response<EdgeBody> {
    // The response has one KiB more for what its length is rounded to.
    let body = Full::new(Bytes::from(vec![b'x'; (kibibytes << 10) - 1]));
    Response::new(body.map_err(|never| match never {}).boxed_unsync())
}

#[test]
fn one_host_does_not_take_the_answers_of_others() {
    let limits = HostLimits { connections_max: 10, requests_max: 10, proxies: Vec::new() };
    let hosts = Hosts::new(limits);
    let host = |number| {
        let peer = hosts.peer(Ipv4Addr::new(192, 0, 2, number).into());
        Arc::new(peer).requests(&HeaderMap::new())
    };
    let memory = AnswerMemory::new();
    let (first, second, third) = (host(1), host(2), host(3));
    let unread = memory.take(&first, &response(HOST_ANSWERS_KIB_MAX)).expect("its share");
    assert!(memory.take(&first, &response(1)).is_none(), "its share is used up");
    let _long = memory.take(&second, &response(HOST_ANSWERS_KIB_MAX - 4)).expect("another host");
    let _short = memory.take(&second, &response(4)).expect("the rest of its share");
    // Two hosts have taken everything but the memory for short responses.
    assert!(memory.take(&third, &response(8)).is_none());
    let _document = memory.take(&third, &response(1)).expect("an error document");
    drop(unread);
    assert!(memory.take(&third, &response(8)).is_some());
    assert!(memory.take(&first, &response(1)).is_some());
}
