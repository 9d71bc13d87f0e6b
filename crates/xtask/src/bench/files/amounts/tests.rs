use super::super::super::options::CACHE_MIB;
use super::super::listing::DIRECTORY_FILES;
use super::*;

#[test]
fn amounts_are_whole_packages_and_full_directories() {
    for amounts in [WHOLE, QUICK] {
        assert_eq!(amounts.unpacked % load::PACKAGE_FILES, 0, "whole packages");
        assert_eq!(amounts.unpacked_few % load::PACKAGE_FILES, 0, "whole packages");
        assert_eq!(amounts.cloned % load::PACKAGE_FILES, 0, "whole packages");
        assert!(amounts.unpacked_few < amounts.unpacked && amounts.cloned < amounts.unpacked);
        assert_eq!(amounts.listed % DIRECTORY_FILES, 0, "full directories");
    }
}

#[test]
fn the_cached_file_fits_into_the_cache() {
    for amounts in [WHOLE, QUICK] {
        let mib = u32::try_from(amounts.cached_mib).expect("a small number");
        assert!(f64::from(mib) < CACHE_MIB * 0.8);
        let pages = amounts.cached_mib << 8;
        assert!(amounts.random_reads as u64 <= pages, "no page is read twice");
    }
}
