//! What the frames of a stack mean: which part of a training they belong to, which layer, which memory is a tensor's.

use serde::Deserialize;

use crate::Error;
use crate::pattern::{Call, matches};

/// The part of a program's work that a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Role {
    /// Making a model: its parameters and buffers.
    Init = 0,
    Forward = 1,
    Backward = 2,
    Optimizer = 3,
    Data = 4,
    Communication = 5,
    Compile = 6,
    Import = 7,
    /// Saving and loading.
    Checkpoint = 8,
    /// Buffers of a library of kernels.
    Workspace = 9,
    /// What a training carries from step to step, where its parts cannot be told apart.
    State = 10,
}

impl Role {
    pub const ALL: [Self; 11] = [
        Self::Init,
        Self::Forward,
        Self::Backward,
        Self::Optimizer,
        Self::Data,
        Self::Communication,
        Self::Compile,
        Self::Import,
        Self::Checkpoint,
        Self::Workspace,
        Self::State,
    ];
    /// Those that a training goes through again and again; their numbers are below this.
    pub const PHASES: usize = 4;

    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Data => "data",
            Self::Communication => "communication",
            Self::Compile => "compile",
            Self::Import => "import",
            Self::Checkpoint => "checkpoint",
            Self::Workspace => "workspace",
            Self::State => "state",
        }
    }

    /// Does it matter whether memory of it outlives something?
    pub fn has_fate(self) -> bool {
        (self as usize) < Self::PHASES || self == Self::State
    }

    /// The phase of this number.
    pub fn phase(number: usize) -> Option<Self> {
        Self::ALL.get(number).copied().filter(|_| number < Self::PHASES)
    }
}

/// A file of rules.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    frame: Vec<FrameRule>,
    layer: Vec<LayerRule>,
    category: Vec<CategoryRule>,
    /// Native functions that hand out the memory of tensors and arrays.
    payload: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameRule {
    role: Role,
    #[serde(default)]
    python: Vec<String>,
    #[serde(default)]
    native: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerRule {
    layer: String,
    #[serde(default)]
    python: Vec<String>,
    #[serde(default)]
    native: Vec<String>,
}

/// What memory of a role is called: that which outlives its phase, and that which does not.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CategoryRule {
    role: Role,
    kept: String,
    passing: String,
}

/// All rules in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub struct FrameRules {
    python: Vec<(Call, Role)>,
    native: Vec<(String, Role)>,
    python_layers: Vec<(Call, String)>,
    native_layers: Vec<(String, String)>,
    categories: Vec<CategoryRule>,
    payload: Vec<String>,
}

/// The built-in files.
const BUILT_IN: [(&str, &str); 6] = [
    ("torch.toml", include_str!("../rules/torch.toml")),
    ("jax.toml", include_str!("../rules/jax.toml")),
    ("tensorflow.toml", include_str!("../rules/tensorflow.toml")),
    ("mxnet.toml", include_str!("../rules/mxnet.toml")),
    ("numpy.toml", include_str!("../rules/numpy.toml")),
    ("generic.toml", include_str!("../rules/generic.toml")),
];

impl FrameRules {
    pub fn built_in() -> Result<Self, Error> {
        Self::with(&[])
    }

    /// A user's files (name and text) and then the built-in ones.
    pub fn with(own: &[(&str, &str)]) -> Result<Self, Error> {
        let mut rules = Self::default();
        for (name, text) in own.iter().chain(&BUILT_IN) {
            rules.add(toml::from_str(text).map_err(|error| Error::new(name, &error))?);
        }
        Ok(rules)
    }

    fn add(&mut self, file: File) {
        for FrameRule { role, python, native } in file.frame {
            self.python.extend(python.iter().map(|pattern| (Call::parse(pattern), role)));
            self.native.extend(native.into_iter().map(|pattern| (pattern, role)));
        }
        for LayerRule { layer, python, native } in file.layer {
            self.python_layers.extend(python.iter().map(|pattern| (Call::parse(pattern), layer.clone())));
            self.native_layers.extend(native.into_iter().map(|pattern| (pattern, layer.clone())));
        }
        self.categories.extend(file.category);
        self.payload.extend(file.payload);
    }

    pub fn python(&self, file: &str, function: &str) -> Option<Role> {
        self.python.iter().find(|(call, _)| call.matches(file, function)).map(|(_, role)| *role)
    }

    pub fn native(&self, function: &str) -> Option<Role> {
        self.native.iter().find(|(pattern, _)| matches(pattern, function)).map(|(_, role)| *role)
    }

    pub fn python_layer(&self, file: &str, function: &str) -> Option<&str> {
        self.python_layers
            .iter()
            .find(|(call, _)| call.matches(file, function))
            .map(|(_, layer)| layer.as_str())
    }

    pub fn native_layer(&self, function: &str) -> Option<&str> {
        self.native_layers
            .iter()
            .find(|(pattern, _)| matches(pattern, function))
            .map(|(_, layer)| layer.as_str())
    }

    /// Does this native function hand out the memory of tensors?
    pub fn is_payload(&self, function: &str) -> bool {
        self.payload.iter().any(|pattern| matches(pattern, function))
    }

    /// What a tensor's memory of this role is called.
    pub fn category(&self, role: Role, kept: bool) -> &str {
        let rule = self.categories.iter().find(|rule| rule.role == role);
        rule.map_or("other", |rule| if kept { &rule.kept } else { &rule.passing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_files_can_be_read_and_know_torch() {
        let rules = FrameRules::built_in().unwrap();
        let torch = "/v/lib/python3.11/site-packages/torch";
        for (file, function, role) in [
            ("optim/adamw.py", "AdamW.step", Some(Role::Optimizer)),
            ("optim/optimizer.py", "zero_grad", Some(Role::Optimizer)),
            ("optim/optimizer.py", "Optimizer.__init__", None),
            ("autograd/__init__.py", "backward", Some(Role::Backward)),
            ("nn/modules/module.py", "Module._call_impl", Some(Role::Forward)),
            ("nn/modules/linear.py", "Linear.__init__", Some(Role::Init)),
            ("utils/data/dataloader.py", "__next__", Some(Role::Data)),
            ("serialization.py", "save", Some(Role::Checkpoint)),
        ] {
            assert_eq!(rules.python(&format!("{torch}/{file}"), function), role, "{file} {function}");
        }
        assert_eq!(rules.python("<frozen importlib._bootstrap>", "_load"), Some(Role::Import));
        assert_eq!(rules.native("torch::autograd::AccumulateGrad::apply"), Some(Role::Backward));
        assert!(rules.is_payload("c10::alloc_cpu"));
        assert_eq!(
            rules.python_layer(&format!("{torch}/nn/modules/conv.py"), "Conv2d.forward"),
            Some("convolution")
        );
        assert_eq!(
            (rules.category(Role::Backward, true), rules.category(Role::Backward, false)),
            ("gradients", "workspace")
        );
    }

    #[test]
    fn own_rules_come_first_and_bad_ones_are_named() {
        let own = "[[frame]]\nrole = \"data\"\npython = [\"torch/optim/*:step\"]\n";
        let rules = FrameRules::with(&[("own.toml", own)]).unwrap();
        assert_eq!(rules.python("/x/torch/optim/sgd.py", "step"), Some(Role::Data));
        assert!(
            FrameRules::with(&[("own.toml", "[[frame]]\nrole = \"x\"")])
                .unwrap_err()
                .to_string()
                .starts_with("own.toml:")
        );
    }
}
