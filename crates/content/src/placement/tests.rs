use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const POLICY: SizeAndLoad = SizeAndLoad { inline_bytes_max: 4 * KIB, staged_inline_bytes_max: MIB };

/// A body that arrives alone while nothing is staged inline.
fn alone(bytes: u64) -> Conditions {
    Conditions { bytes, since_concurrent: None, staged_inline_bytes: 0 }
}

fn choices(conditions: &[Conditions]) -> Vec<Placement> {
    conditions.iter().map(|conditions| POLICY.choose(conditions)).collect()
}

#[test]
fn lone_body_is_placed_by_its_size() {
    let chosen = [
        (0, Placement::Inline),
        (4 * KIB, Placement::Inline),
        (4 * KIB + 1, Placement::StagedInline),
        (256 * KIB, Placement::StagedInline),
        (256 * KIB + 1, Placement::Block),
        (MIB, Placement::Block),
    ];
    for (bytes, placement) in chosen {
        assert_eq!(POLICY.choose(&alone(bytes)), placement, "{bytes} bytes");
    }
}

#[test]
fn concurrent_bodies_and_those_of_the_next_second_go_into_blocks() {
    let after = |since| Conditions { since_concurrent: Some(since), ..alone(100 * KIB) };
    let moments = [Duration::ZERO, CONCURRENCY_MEMORY * 9 / 10, CONCURRENCY_MEMORY].map(after);
    let (block, staged) = (Placement::Block, Placement::StagedInline);
    assert_eq!(choices(&moments), [block, block, staged]);
    let small = Conditions { since_concurrent: Some(Duration::ZERO), ..alone(KIB) };
    assert_eq!(choices(&[small]), [Placement::Inline], "it costs a block nothing");
}

#[test]
fn bodies_go_into_blocks_when_the_staged_limit_is_reached() {
    let beside = |staged_inline_bytes| Conditions { staged_inline_bytes, ..alone(100 * KIB) };
    let (block, staged) = (Placement::Block, Placement::StagedInline);
    let room = [MIB - 100 * KIB, MIB - 100 * KIB + 1, u64::MAX].map(beside);
    assert_eq!(choices(&room), [staged, block, block]);
    let none = SizeAndLoad { staged_inline_bytes_max: 0, ..POLICY };
    assert_eq!(none.choose(&alone(100 * KIB)), block);
    assert_eq!(none.choose(&alone(KIB)), Placement::Inline);
}
