//! A user's own rules.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_rules::FrameRules;

fuzz_target!(|text: &str| {
    let Ok(rules) = FrameRules::with(&[("own.toml", text)]) else { return };
    for (file, function) in [("/lib/torch/optim/adamw.py", "_init_group"), ("", ""), ("ä", "*")] {
        let _ = (rules.python(file, function), rules.native(function), rules.is_payload(function));
        let _ = (rules.python_layer(file, function), rules.native_layer(function));
    }
});
