//! The form of a page on the disk.

use block::{BlockRef, Nonce, Sealer, SubBlock};

use super::*;

fn page(index: u32) -> (Page, PageKey) {
    let id = BlockId::new(Nonce([3; Nonce::BYTES]), 9);
    let mut sealer = Sealer::new(id, 200_000);
    sealer.push_copy(&vec![7; 200_000]);
    let block = sealer.finish();
    let reference: BlockRef = block.reference();
    let sub_blocks = sealed::open_sub_blocks(reference, 0..4, block.to_bytes()).expect("sound");
    let key = PageKey { block: id, index };
    let SubBlock { content, checksum } = sub_blocks[index as usize].clone();
    (Page::copied(key, checksum, &[content]), key)
}

fn encoded(page: &Page) -> Vec<u8> {
    let mut bytes = Vec::new();
    page.encode(&mut bytes).expect("memory takes it");
    assert_eq!(bytes.len(), page.estimated_size());
    bytes
}

#[test]
fn encoded_page_decodes() {
    for index in [0, 3] {
        let (page, key) = page(index);
        let found = Page::decode(&mut &encoded(&page)[..]).expect("a page");
        assert_eq!(found, page);
        let length = page_bytes(200_000, index);
        let content = found.content_of(key, length).expect("sound");
        assert_eq!(content, vec![7; length as usize]);
        let mut bytes = Vec::new();
        key.encode(&mut bytes).expect("memory takes it");
        assert_eq!((PageKey::decode(&mut &bytes[..]).expect("a key"), bytes.len()), (key, 20));
    }
}

#[test]
fn changed_byte_makes_the_page_damaged() {
    let (page, key) = page(3);
    let sound = encoded(&page);
    let length = page_bytes(200_000, 3);
    for place in (0..sound.len()).step_by(101).chain(0..30) {
        let mut bytes = sound.clone();
        bytes[place] ^= 0x10;
        let found = Page::decode(&mut &bytes[..]).expect("damage is no error");
        assert_eq!(found.content_of(key, length), None, "byte {place}");
        assert_eq!(found.cost(), PAGE_OVERHEAD_BYTES);
    }
    for bytes in [&sound[..sound.len() - 1], &[sound.clone(), vec![0]].concat()] {
        let found = Page::decode(&mut &bytes[..]).expect("damage is no error");
        assert_eq!(found.content_of(key, length), None);
    }
}

#[test]
fn page_matches_only_its_own_key() {
    let (page, key) = page(0);
    let length = page_bytes(200_000, 0);
    assert!(page.content_of(key, length).is_some());
    assert_eq!(page.content_of(PageKey { index: 1, ..key }, length), None);
    assert_eq!(page.content_of(key, length - 1), None);
}
