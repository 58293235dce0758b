//! `/proc/PID/fdinfo/N` of a graphics device: memory by client (Documentation/gpu/drm-usage-stats.rst).

use super::scan::{lines, padded_number};

/// One open file of a device. Several descriptors, also of several processes, may share one client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Client {
    pub id: u64,
    pub driver: String,
    /// Address on the bus (`drm-pdev`), empty for devices without one.
    pub device: String,
    /// Memory of the device itself; `None` if no such region is named.
    pub local_bytes: Option<u64>,
    /// Memory of the machine that the device uses.
    pub system_bytes: Option<u64>,
}

/// `None` for any other kind of file.
pub fn parse(text: &[u8]) -> Option<Client> {
    let mut client = Client::default();
    let mut regions: Vec<Region> = Vec::new();
    let mut has_id = false;
    for line in lines(text) {
        let Some(line) = line.strip_prefix(b"drm-") else { continue };
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        match name {
            b"driver" => client.driver = text_of(value),
            b"pdev" => client.device = text_of(value),
            b"client-id" => {
                client.id = padded_number(value)?;
                has_id = true;
            }
            _ => regions.extend(Region::parse(name, value)),
        }
    }
    has_id.then(|| with_regions(client, &mut regions))
}

fn with_regions(mut client: Client, regions: &mut Vec<Region>) -> Client {
    regions.sort_by(|a, b| (a.name, a.rank).cmp(&(b.name, b.rank)));
    regions.dedup_by(|later, first| later.name == first.name);
    for region in regions {
        let sum = if region.is_local() { &mut client.local_bytes } else { &mut client.system_bytes };
        *sum = Some(sum.unwrap_or(0).saturating_add(region.bytes));
    }
    client
}

#[derive(Debug)]
struct Region<'t> {
    name: &'t [u8],
    /// The best statement about a region first: resident, then the older name for it, then all buffers.
    rank: u8,
    bytes: u64,
}

impl<'t> Region<'t> {
    fn parse(name: &'t [u8], value: &[u8]) -> Option<Self> {
        const KEYS: [&[u8]; 3] = [b"resident-", b"memory-", b"total-"];
        let (rank, name) =
            KEYS.iter().enumerate().find_map(|(rank, key)| Some((rank as u8, name.strip_prefix(*key)?)))?;
        // `drm-total-cycles-rcs` and the like count time.
        if name.starts_with(b"cycles") {
            return None;
        }
        let number = padded_number(value)?;
        let unit = match value.rsplit(|b| *b == b' ').next()?.trim_ascii() {
            b"KiB" => 1 << 10,
            b"MiB" => 1 << 20,
            _ => 1,
        };
        Some(Self { name, rank, bytes: number.saturating_mul(unit) })
    }

    /// amdgpu and xe say `vram`, i915 `local0`; the others are `gtt`, `system0`, `cpu`, `stolen-system0`.
    fn is_local(&self) -> bool {
        [&b"vram"[..], b"local", b"stolen-local"].iter().any(|start| self.name.starts_with(start))
    }
}

fn text_of(value: &[u8]) -> String {
    String::from_utf8_lossy(value.trim_ascii()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amdgpu_names_each_region_twice_and_it_counts_once() {
        let text =
            b"pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t42\ndrm-pdev:\t0000:03:00.0\n\
            drm-memory-vram:\t2048 KiB\ndrm-total-vram:\t4096 KiB\ndrm-resident-vram:\t3072 KiB\n\
            drm-memory-gtt:\t16 KiB\ndrm-memory-cpu:\t0 KiB\ndrm-engine-gfx:\t25 ns\n";
        let expected = Client {
            id: 42,
            driver: "amdgpu".into(),
            device: "0000:03:00.0".into(),
            local_bytes: Some(3 << 20),
            system_bytes: Some(16 << 10),
        };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn intel_with_and_without_memory_of_its_own() {
        let xe = b"drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:08:00.0\ndrm-total-cycles-rcs:\t99\n\
            drm-resident-vram0:\t1 MiB\ndrm-resident-system:\t0\ndrm-resident-gtt:\t192 KiB\n";
        let xe = parse(xe).unwrap();
        assert_eq!((xe.local_bytes, xe.system_bytes), (Some(1 << 20), Some(192 << 10)));
        let i915 =
            b"drm-driver: i915\ndrm-client-id: 8\ndrm-pdev: 0000:00:02.0\ndrm-resident-system0: 512 KiB\n\
            drm-resident-stolen-system0: 0\n";
        let i915 = parse(i915).unwrap();
        assert_eq!((i915.local_bytes, i915.system_bytes), (None, Some(512 << 10)));
    }

    #[test]
    fn other_files_are_no_clients() {
        assert_eq!(parse(b"pos:\t0\nflags:\t02\nmnt_id:\t15\n"), None);
        assert_eq!(parse(b"drm-driver:\tx\n"), None, "no client id, so it cannot be counted once");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
