use super::*;

fn clamped(connections_max: usize, of_host: usize, open_files: Option<u64>) -> (usize, usize) {
    let mut hosts = HostLimits { connections_max: of_host, requests_max: 1, proxies: Vec::new() };
    let mut connections = connections_max;
    clamp(&mut connections, &mut hosts, open_files);
    (connections, hosts.connections_max)
}

#[test]
fn connections_fit_into_the_limit_of_open_files() {
    assert_eq!(clamped(4096, 2048, None), (4096, 2048));
    assert_eq!(clamped(4096, 2048, Some(65_536)), (4096, 2048));
    assert_eq!(clamped(4096, 2048, Some(1024)), (768, 384));
    assert_eq!(clamped(4096, 100, Some(1024)), (768, 100));
    assert_eq!(clamped(4096, 2048, Some(10)), (16, 8));
}

#[test]
fn the_soft_limit_becomes_the_hard_one() {
    let limit = raise();
    assert_eq!(
        (getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum),
        (limit, limit)
    );
}
