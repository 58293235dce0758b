//! Other releases of glibc: programs linked to them, started by their own dynamic linker.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{compile, programs, run};

const CRT: &str = "/usr/lib/x86_64-linux-gnu";

/// A libc that lies in a folder of ours.
pub struct Libc {
    name: String,
    folder: PathBuf,
}

impl Libc {
    /// Fetched at first; the error is why it cannot be had.
    pub fn of_debian(suite: &str) -> Result<Self, String> {
        let output =
            Command::new("sh").arg(programs().join("fetch_debian.sh")).args([suite, "libc6"]).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Self::below(suite, Path::new(String::from_utf8_lossy(&output.stdout).trim()))
    }

    fn below(name: &str, root: &Path) -> Result<Self, String> {
        let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|folder| root.join(folder));
        let folder = folders.into_iter().find(|folder| folder.join("libc.so.6").exists());
        let folder = folder.ok_or_else(|| format!("no libc below {}", root.display()))?;
        Ok(Self { name: name.to_owned(), folder })
    }

    /// `shapes.c`, linked against this libc.
    pub fn build(&self) -> PathBuf {
        let folder = self.folder.display();
        let file = |name: &str| format!("{folder}/{name}");
        let options = [
            "-nostdlib".to_owned(),
            format!("{CRT}/Scrt1.o"),
            format!("{CRT}/crti.o"),
            format!("-Wl,--dynamic-linker={folder}/ld-linux-x86-64.so.2,-rpath,{folder},--no-as-needed"),
            file("libc.so.6"),
            file("libpthread.so.0"),
            file("ld-linux-x86-64.so.2"),
            format!("-L{folder}"),
            format!("{CRT}/crtn.o"),
        ];
        compile(&format!("shapes-{}", self.name), "shapes.c", &options.each_ref().map(String::as_str))
    }

    /// As it says of itself: `2.41`.
    pub fn version(&self) -> String {
        let said =
            run(Command::new(self.folder.join("ld-linux-x86-64.so.2")).arg(self.folder.join("libc.so.6")));
        let number = said.split("version ").nth(1).unwrap_or_default();
        number
            .trim_end_matches(|c| c != '\n')
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_end_matches('.')
            .to_owned()
    }
}
