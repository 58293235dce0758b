//! Which mappings are looked at.

use nilometer_kernel::parse::maps::Mapping;

/// Mappings that are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    pub skip: Vec<Skip>,
    /// Smaller ones are left out.
    pub min_pages: u64,
    /// Only those whose name contains this.
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Code.
    Executable,
    /// Neither readable nor writable.
    NoAccess,
}

impl Filters {
    pub fn keeps(&self, mapping: &Mapping<'_>, page_bytes: u64) -> bool {
        let skipped = |skip: &Skip| match skip {
            Skip::Executable => mapping.is_exec(),
            Skip::NoAccess => mapping.perms[0] != b'r' && !mapping.is_write(),
        };
        let named = |name: &String| String::from_utf8_lossy(mapping.name).contains(name.as_str());
        !self.skip.iter().any(skipped)
            && mapping.bytes() >= self.min_pages.saturating_mul(page_bytes)
            && self.name.as_ref().is_none_or(named)
    }

    pub fn describe(&self) -> Vec<String> {
        let skip = |skip: &Skip| match skip {
            Skip::Executable => "without executable mappings".to_owned(),
            Skip::NoAccess => "without mappings that cannot be accessed".to_owned(),
        };
        let size = (self.min_pages > 0).then(|| format!("mappings of {} pages and more", self.min_pages));
        let name = self.name.as_ref().map(|name| format!("mappings named like `{name}`"));
        self.skip.iter().map(skip).chain(size).chain(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_kernel::parse::maps::parse_header;

    #[test]
    fn code_reserves_small_ones_and_names_can_be_left_out() {
        let code = parse_header(b"1000-3000 r-xp 0 00:00 1 /lib/libc.so").unwrap();
        let reserve = parse_header(b"3000-9000 ---p 0 00:00 0 ").unwrap();
        let keeps = |filters: &Filters| [code, reserve].map(|mapping| filters.keeps(&mapping, 4096));
        assert_eq!(keeps(&Filters::default()), [true, true]);
        assert_eq!(keeps(&Filters { skip: vec![Skip::Executable], ..Filters::default() }), [false, true]);
        assert_eq!(keeps(&Filters { skip: vec![Skip::NoAccess], ..Filters::default() }), [true, false]);
        let large = Filters { min_pages: 4, ..Filters::default() };
        assert_eq!((keeps(&large), large.describe().len()), ([false, true], 1));
        assert_eq!(keeps(&Filters { name: Some("libc".into()), ..Filters::default() }), [true, false]);
    }
}
