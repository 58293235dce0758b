//! Memory of graphics devices, whole and by process. Untested on hardware; see `docs/doctor.md`.
//!
//! NVIDIA through its management library; AMD and Intel through `/sys/class/drm`, `/proc/PID/fdinfo` and
//! the compute driver's files (`/sys/class/kfd`). Opened once, then cheap enough to be read once a second.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::kept::{KeptFile, read_once};
use super::proc::Proc;
use crate::parse::drm;
use crate::parse::scan::{lines, number, padded_number};
use crate::sys::nvml::Nvml;

/// The management library as the driver installs it.
pub const NVML_LIBRARY: &str = "libnvidia-ml.so.1";
/// Names another one.
pub const NVML_VARIABLE: &str = "NILO_NVML_LIB";
/// Descriptors of all processes are looked through at one reading in so many; those found before, at each.
const READINGS_PER_SEARCH: u64 = 10;

/// One reading of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceMemory {
    pub name: String,
    pub used_bytes: u64,
    /// 0 where the device has no memory of its own (it uses the machine's) or does not tell.
    pub total_bytes: u64,
    /// Processes that use it, by pid. NVIDIA and the compute driver number them as the host does, so in a
    /// container these pids are not those seen inside.
    pub processes: Vec<(i32, u64)>,
}

/// All devices of the machine, in an order that stays the same.
#[derive(Debug)]
pub struct Devices {
    nvml: Option<Nvml>,
    cards: Vec<Card>,
    kfd: Kfd,
    clients: Clients,
    notes: Vec<String>,
}

impl Devices {
    /// Those of this machine; the library is `$NILO_NVML_LIB` or the driver's.
    pub fn here() -> Self {
        let library = std::env::var_os(NVML_VARIABLE).filter(|path| !path.is_empty());
        Self::open(Path::new("/"), Path::new(library.as_deref().unwrap_or(NVML_LIBRARY.as_ref())))
    }

    /// `root` is `/` except in tests. A missing driver is no error: [`Self::notes`] tells of it.
    pub fn open(root: &Path, nvml_path: &Path) -> Self {
        let mut notes = Vec::new();
        let nvml =
            Nvml::open(nvml_path).map_err(|problem| notes.push(format!("no NVIDIA devices: {problem}"))).ok();
        let cards = list_cards(&root.join("sys/class/drm"));
        if cards.is_empty() {
            notes.push(
                "no AMD or Intel devices: /sys/class/drm has no card of amdgpu, radeon, i915 or xe"
                    .to_owned(),
            );
        }
        let kfd = Kfd::open(root, &cards);
        Self { nvml, cards, kfd, clients: Clients::new(root), notes }
    }

    /// Why there are no devices of one kind or another, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn is_empty(&self) -> bool {
        self.nvidia() == 0 && self.cards.is_empty()
    }

    /// How many devices the NVIDIA driver has.
    pub fn nvidia(&self) -> usize {
        self.nvml.as_ref().map_or(0, Nvml::devices)
    }

    /// Looks for clients of AMD and Intel devices in these processes only, all of them at each reading.
    pub fn watch(&mut self, pids: &[i32]) {
        self.clients.only = Some(pids.to_vec());
    }

    /// Reads all devices: NVIDIA's first, then the cards by number. A device that does not answer is 0.
    pub fn read(&mut self) -> Vec<DeviceMemory> {
        let mut devices: Vec<DeviceMemory> = (0..self.nvidia()).filter_map(|i| self.read_nvidia(i)).collect();
        if !self.cards.is_empty() {
            let clients = self.clients.read();
            let compute = self.kfd.read();
            devices.extend(self.cards.iter().enumerate().map(|(i, card)| card.read(i, &clients, &compute)));
        }
        devices
    }

    fn read_nvidia(&mut self, index: usize) -> Option<DeviceMemory> {
        let nvml = self.nvml.as_mut()?;
        let memory = nvml.read_memory(index).unwrap_or_default();
        let mut processes = nvml.read_processes(index);
        processes.sort_unstable();
        let name = format!("nvidia{index} {}", nvml.name(index)).trim_end().to_owned();
        Some(DeviceMemory { name, used_bytes: memory.used, total_bytes: memory.total, processes })
    }
}

/// Name of the driver of each AMD and Intel device.
pub fn read_drivers(root: &Path) -> Vec<String> {
    list_cards(&root.join("sys/class/drm")).into_iter().map(|card| card.driver).collect()
}

/// A card of `/sys/class/drm`.
#[derive(Debug)]
struct Card {
    name: String,
    driver: String,
    /// Address on the bus.
    device: String,
    used: Option<KeptFile>,
    total_bytes: u64,
}

/// `card0` and so on; `card0-HDMI-A-1` is a connector.
fn list_cards(directory: &Path) -> Vec<Card> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let card_number = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let digits = name.as_bytes().strip_prefix(b"card")?;
        digits.iter().all(u8::is_ascii_digit).then(|| number(digits)).flatten().map(|n| (n, entry.path()))
    };
    let mut found: Vec<(u64, PathBuf)> = entries.flatten().filter_map(card_number).collect();
    found.sort();
    found.into_iter().filter_map(|(index, path)| Card::open(index, &path.join("device"))).collect()
}

impl Card {
    fn open(index: u64, device: &Path) -> Option<Self> {
        let mut buffer = Vec::new();
        let length = read_once(&device.join("uevent"), &mut buffer).unwrap_or(0);
        let value = |name: &[u8]| {
            let line = lines(&buffer[..length]).find_map(|line| line.strip_prefix(name))?;
            Some(String::from_utf8_lossy(line).into_owned())
        };
        let driver =
            value(b"DRIVER=").or_else(|| last_part(&std::fs::read_link(device.join("driver")).ok()?))?;
        let address = value(b"PCI_SLOT_NAME=").or_else(|| last_part(&std::fs::read_link(device).ok()?));
        let known = matches!(&*driver, "amdgpu" | "radeon" | "i915" | "xe");
        known.then(|| Self {
            name: format!("card{index} {driver}"),
            driver,
            device: address.unwrap_or_default(),
            used: KeptFile::open(device.join("mem_info_vram_used")).ok(),
            total_bytes: read_number(&device.join("mem_info_vram_total")).unwrap_or(0),
        })
    }

    /// The driver's total where it has one; otherwise the sum over its clients.
    fn read(&self, index: usize, clients: &[Owned], compute: &BTreeMap<(usize, i32), u64>) -> DeviceMemory {
        let own: Vec<&Owned> = clients.iter().filter(|owned| owned.client.device == self.device).collect();
        let has_local = self.used.is_some() || own.iter().any(|owned| owned.client.local_bytes.is_some());
        let mut processes: BTreeMap<i32, u64> = BTreeMap::new();
        for owned in own {
            let bytes = if has_local { owned.client.local_bytes } else { owned.client.system_bytes };
            let sum = processes.entry(owned.pid).or_default();
            *sum = sum.saturating_add(bytes.unwrap_or(0));
        }
        // The compute driver's buffers belong to a client as well: the larger figure, never the sum.
        for ((_, pid), bytes) in compute.iter().filter(|((card, _), _)| *card == index) {
            let sum = processes.entry(*pid).or_default();
            *sum = (*sum).max(*bytes);
        }
        processes.retain(|_, bytes| *bytes > 0);
        let told = self.used.as_ref().and_then(|file| number(file.read(&mut Vec::new()).ok()?));
        DeviceMemory {
            name: self.name.clone(),
            used_bytes: told
                .unwrap_or_else(|| processes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))),
            total_bytes: self.total_bytes,
            processes: processes.into_iter().collect(),
        }
    }
}

fn last_part(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn read_number(path: &Path) -> Option<u64> {
    let mut buffer = Vec::new();
    let length = read_once(path, &mut buffer).ok()?;
    padded_number(&buffer[..length])
}

/// A client and the process that it is counted for: the lowest pid of those that hold it.
#[derive(Debug)]
struct Owned {
    pid: i32,
    client: drm::Client,
}

/// Descriptors of graphics devices.
#[derive(Debug)]
struct Clients {
    proc: Proc,
    only: Option<Vec<i32>>,
    known: Vec<(i32, PathBuf)>,
    readings: u64,
}

impl Clients {
    fn new(root: &Path) -> Self {
        Self { proc: Proc::new(root.join("proc")), only: None, known: Vec::new(), readings: 0 }
    }

    fn read(&mut self) -> Vec<Owned> {
        if self.only.is_some() || self.readings.is_multiple_of(READINGS_PER_SEARCH) {
            self.search();
        }
        self.readings += 1;
        let mut buffer = Vec::new();
        let mut seen = BTreeSet::new();
        let mut clients = Vec::new();
        self.known.retain(|(pid, path)| {
            let client = read_once(path, &mut buffer).ok().and_then(|length| drm::parse(&buffer[..length]));
            let Some(client) = client else { return false };
            if seen.insert((client.device.clone(), client.id)) {
                clients.push(Owned { pid: *pid, client });
            }
            true
        });
        clients
    }

    fn search(&mut self) {
        let mut pids = self.only.clone().unwrap_or_else(|| self.proc.list_pids().unwrap_or_default());
        pids.sort_unstable();
        self.known = pids.iter().flat_map(|pid| self.device_files(*pid)).collect();
    }

    /// Processes of others are not readable, and skipped.
    fn device_files(&self, pid: i32) -> Vec<(i32, PathBuf)> {
        let process = self.proc.root().join(pid.to_string());
        let Ok(descriptors) = std::fs::read_dir(process.join("fd")) else { return Vec::new() };
        let is_device = |path: &Path| std::fs::read_link(path).is_ok_and(|link| link.starts_with("/dev/dri"));
        descriptors
            .flatten()
            .filter(|entry| is_device(&entry.path()))
            .map(|entry| (pid, process.join("fdinfo").join(entry.file_name())))
            .collect()
    }
}

/// `/sys/class/kfd/kfd`: VRAM of each compute process in `proc/PID/vram_GPUID`.
#[derive(Debug)]
struct Kfd {
    processes: PathBuf,
    /// Card by id of the compute driver.
    cards: BTreeMap<u64, usize>,
}

impl Kfd {
    fn open(root: &Path, cards: &[Card]) -> Self {
        let top = root.join("sys/class/kfd/kfd");
        let nodes = std::fs::read_dir(top.join("topology/nodes")).into_iter().flatten().flatten();
        let card_of = |node: std::fs::DirEntry| {
            let id = read_number(&node.path().join("gpu_id")).filter(|id| *id != 0)?; // 0 is the processor
            let address = bus_address(&std::fs::read(node.path().join("properties")).ok()?)?;
            Some((id, cards.iter().position(|card| card.device == address)?))
        };
        Self { processes: top.join("proc"), cards: nodes.filter_map(card_of).collect() }
    }

    fn read(&self) -> BTreeMap<(usize, i32), u64> {
        let mut sums = BTreeMap::new();
        if self.cards.is_empty() {
            return sums;
        }
        for process in std::fs::read_dir(&self.processes).into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            for (id, card) in &self.cards {
                if let Some(bytes) = read_number(&process.path().join(format!("vram_{id}"))) {
                    sums.insert((*card, pid), bytes);
                }
            }
        }
        sums
    }
}

/// `location_id` is bus, device and function (`pci_dev_id`), `domain` the domain (drivers/gpu/drm/amd/amdkfd).
fn bus_address(properties: &[u8]) -> Option<String> {
    let value = |name: &[u8]| lines(properties).find_map(|line| padded_number(line.strip_prefix(name)?));
    let (domain, place) = (value(b"domain ").unwrap_or(0), value(b"location_id ")?);
    Some(format!("{domain:04x}:{:02x}:{:02x}.{}", place >> 8 & 0xff, place >> 3 & 0x1f, place & 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn put_card(&self, card: &str, driver: &str, address: &str) {
            let uevent = format!("DRIVER={driver}\nPCI_CLASS=30000\nPCI_SLOT_NAME={address}\n");
            self.put(&format!("sys/class/drm/{card}/device/uevent"), &uevent);
        }

        fn put_client(&self, pid: i32, fd: u32, text: &str) {
            let fds = self.0.path().join(format!("proc/{pid}/fd"));
            std::fs::create_dir_all(&fds).unwrap();
            std::os::unix::fs::symlink("/dev/dri/renderD128", fds.join(fd.to_string())).unwrap();
            self.put(&format!("proc/{pid}/fdinfo/{fd}"), text);
        }

        fn open(&self) -> Devices {
            Devices::open(self.0.path(), &self.0.path().join("none.so"))
        }
    }

    fn client(id: u64, device: &str, vram_kib: u64) -> String {
        format!(
            "drm-driver:\tamdgpu\ndrm-client-id:\t{id}\ndrm-pdev:\t{device}\ndrm-memory-vram:\t{vram_kib} KiB\n"
        )
    }

    #[test]
    fn a_machine_without_devices_is_empty_with_a_note_for_each_kind() {
        let mut devices = Machine::new().open();
        assert!(devices.is_empty() && devices.read().is_empty());
        assert_eq!(devices.notes().len(), 2);
    }

    #[test]
    fn an_amd_card_has_totals_and_processes_and_a_shared_client_counts_once() {
        let machine = Machine::new();
        machine.put_card("card1", "amdgpu", "0000:03:00.0");
        machine.put("sys/class/drm/card1/device/mem_info_vram_used", "5242880\n");
        machine.put("sys/class/drm/card1/device/mem_info_vram_total", "17163091968\n");
        machine.put("sys/class/drm/card1-HDMI-A-1/status", "connected\n");
        machine.put_card("card0", "ast", "0000:02:00.0");
        machine.put_client(30, 9, &client(1, "0000:03:00.0", 1024));
        machine.put_client(20, 8, &client(1, "0000:03:00.0", 1024));
        machine.put_client(20, 7, &client(2, "0000:03:00.0", 2048));
        machine.put_client(40, 7, &client(2, "0000:04:00.0", 4096));
        let expected = DeviceMemory {
            name: "card1 amdgpu".into(),
            used_bytes: 5 << 20,
            total_bytes: 17_163_091_968,
            processes: vec![(20, 3 << 20)],
        };
        assert_eq!(machine.open().read(), [expected]);
    }

    #[test]
    fn the_compute_drivers_figure_replaces_a_smaller_one() {
        let machine = Machine::new();
        machine.put_card("card0", "amdgpu", "0000:c1:00.0");
        machine.put("sys/class/drm/card0/device/mem_info_vram_used", "9000000\n");
        machine.put("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
        machine.put("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51110\n");
        machine.put(
            "sys/class/kfd/kfd/topology/nodes/1/properties",
            "cpu_cores_count 0\nlocation_id 49408\ndomain 0\n",
        );
        machine.put("sys/class/kfd/kfd/proc/77/vram_51110", "8388608\n");
        machine.put("sys/class/kfd/kfd/proc/78/vram_51110", "0\n");
        machine.put_client(77, 3, &client(5, "0000:c1:00.0", 1024));
        assert_eq!(machine.open().read()[0].processes, [(77, 8 << 20)]);
    }

    #[test]
    fn a_device_without_memory_of_its_own_is_the_sum_of_its_clients() {
        let machine = Machine::new();
        machine.put_card("card0", "i915", "0000:00:02.0");
        let text =
            "drm-driver: i915\ndrm-client-id: 8\ndrm-pdev: 0000:00:02.0\ndrm-resident-system0: 512 KiB\n";
        machine.put_client(5, 3, text);
        let mut devices = machine.open();
        let expected = DeviceMemory {
            name: "card0 i915".into(),
            used_bytes: 512 << 10,
            total_bytes: 0,
            processes: vec![(5, 512 << 10)],
        };
        assert_eq!(devices.read(), [expected]);
    }

    #[test]
    fn new_clients_are_found_at_the_next_search_or_at_once_in_watched_processes() {
        let machine = Machine::new();
        machine.put_card("card0", "xe", "0000:08:00.0");
        let mut devices = machine.open();
        assert_eq!(devices.read()[0].processes, []);
        machine.put_client(
            5,
            3,
            "drm-driver: xe\ndrm-client-id: 1\ndrm-pdev: 0000:08:00.0\ndrm-resident-vram0: 1 MiB\n",
        );
        assert_eq!(devices.read()[0].processes, [], "only descriptors known from the last search");
        let found = (2..=READINGS_PER_SEARCH).map(|_| devices.read()[0].processes.len()).sum::<usize>();
        assert_eq!(found, 1);
        let mut watching = machine.open();
        watching.watch(&[6]);
        assert_eq!(watching.read()[0].processes, []);
        watching.watch(&[5, 6]);
        assert_eq!(watching.read()[0].processes, [(5, 1 << 20)]);
    }
}
