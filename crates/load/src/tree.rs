//! A tree of small files, like the packages that a package manager installs.
//!
//! For example, package 3 is the folder `package-00003`, with 25 files and a folder `src` with 25
//! more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::Trouble;
use crate::folder::system_error;

/// The number of files of a package. Half of them are in `src`.
pub const PACKAGE_FILES: u64 = 50;

/// The range of file sizes in bytes, uniformly distributed.
const BYTES: std::ops::RangeInclusive<usize> = (1 << 10)..=(16 << 10);

/// The alphabet of contents, which compress like text, by about a quarter.
const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \n";

/// Creates a folder with `files` files of 1 to 16 KiB in packages of [`PACKAGE_FILES`]. Each
/// package is a folder: `package-00000` and so on. Returns the bytes of all files.
///
/// # Errors
///
/// If the folder exists, or a file cannot be created.
pub fn plant(folder: &Path, files: u64, seed: u64) -> Result<u64, Trouble> {
    fill(folder, files, seed, |number| {
        let path = file(folder, number);
        // A folder is created with its first file.
        if number.is_multiple_of(PACKAGE_FILES) {
            fs::create_dir(package_folder(folder, number / PACKAGE_FILES))?;
        } else if number % PACKAGE_FILES == PACKAGE_FILES / 2 {
            fs::create_dir(path.parent().expect("each file is in a folder"))?;
        }
        Ok(path)
    })
}

/// Creates a folder with `directories` directories of `files` files of 1 to 16 KiB each:
/// `directory-000/file-000.txt` and so on. Returns the bytes of all files.
///
/// # Errors
///
/// If the folder exists, or a file cannot be created.
pub fn plant_directories(
    folder: &Path,
    directories: u64,
    files: u64,
    seed: u64,
) -> Result<u64, Trouble> {
    fill(folder, directories * files, seed, |number| {
        let directory = folder.join(format!("directory-{:03}", number / files));
        if number.is_multiple_of(files) {
            fs::create_dir(&directory)?;
        }
        Ok(directory.join(format!("file-{:03}.txt", number % files)))
    })
}

/// Creates `folder` and writes `files` files. `place` returns the path of a file, and creates its
/// folder. Returns the bytes of all files.
fn fill(
    folder: &Path,
    files: u64,
    seed: u64,
    mut place: impl FnMut(u64) -> io::Result<PathBuf>,
) -> Result<u64, Trouble> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut content = vec![0; *BYTES.end()];
    let mut all = 0;
    let mut write = |number: u64| -> io::Result<()> {
        let path = place(number)?;
        let bytes = &mut content[..random.random_range(BYTES)];
        random.fill_bytes(bytes);
        bytes.iter_mut().for_each(|byte| *byte = LETTERS[usize::from(*byte % 64)]);
        all += bytes.len() as u64;
        fs::write(path, bytes)
    };
    fs::create_dir(folder).map_err(system_error("make the folder", folder))?;
    (0..files).try_for_each(&mut write).map_err(system_error("fill", folder))?;
    Ok(all)
}

/// Returns the folder of a package in a tree.
pub fn package_folder(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("package-{number:05}"))
}

fn file(folder: &Path, number: u64) -> PathBuf {
    let (of, within) = (number / PACKAGE_FILES, number % PACKAGE_FILES);
    let package = package_folder(folder, of);
    let parent = if within < PACKAGE_FILES / 2 { package } else { package.join("src") };
    parent.join(format!("module-{within:02}.txt"))
}

#[cfg(test)]
mod tests;
