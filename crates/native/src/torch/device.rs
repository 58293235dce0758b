//! Where a storage's bytes live, by the number that torch keeps (`c10/core/DeviceType.h`).

const NAMES: &[&str] = &[
    "cpu",
    "cuda",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "fpga",
    "maia",
    "xla",
    "vulkan",
    "metal",
    "xpu",
    "mps",
    "meta",
    "hpu",
    "ve",
    "lazy",
    "ipu",
    "mtia",
    "privateuseone",
];
/// Newer releases may have a few more.
const MOST_TYPES: u8 = 32;
const CPU: u8 = 0;
const META: u8 = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    kind: u8,
    /// Which of them; none for "the current one", as with the CPU.
    pub index: Option<u8>,
}

impl Device {
    /// None for numbers that no release of torch has.
    pub(super) fn new(kind: u8, index: u8) -> Option<Self> {
        let index = index as i8;
        (kind < MOST_TYPES && index >= -1).then_some(Self { kind, index: u8::try_from(index).ok() })
    }

    /// As torch prints it, without the index.
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.kind)).copied().unwrap_or("device")
    }

    /// Its bytes are in the process's own memory.
    pub fn is_host(self) -> bool {
        self.kind == CPU
    }

    /// It has a shape and no bytes.
    pub fn is_meta(self) -> bool {
        self.kind == META
    }
}
