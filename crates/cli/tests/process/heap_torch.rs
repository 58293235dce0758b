//! Tensors count with their storages, shared ones once, and are named as a model names them.

use std::process::Command;

use crate::harness::{Dialogue, Lab, py_program};
use crate::heap_target::{document, screen};
use crate::watched::number_of;

const ENVIRONMENT: &str = "torch-2.15";

/// An interpreter with torch, where it is to be had.
pub fn python_with_torch() -> Option<String> {
    nilometer_lab::environment(&[ENVIRONMENT])
}

#[test]
fn a_model_is_its_parameters_and_gradients_each_buffer_once() {
    let Some(python) = python_with_torch() else { return };
    let lab = Lab::new();
    let mut target = Dialogue::start(Command::new(python).arg(py_program("torch_model.py")));
    let buffers = number_of(&target.line(), "buffers");
    let bytes = number_of(&target.line(), "bytes");
    let weight = number_of(&target.line(), "address");
    screen(&lab, &[&target.pid().to_string(), "-o", "a.heap"]);
    assert_eq!(target.end().status.code(), Some(0));

    let of = &document(&lab, &["a.heap", "--of", "__main__.model"])["of"];
    assert_eq!((&of["arrays"]["buffers"], &of["arrays"]["unique_bytes"]), (&buffers.into(), &bytes.into()));
    assert_eq!(of["own"]["payload_bytes"], bytes);
    // Attribute paths go through torch's own dicts, both ways.
    let path = "__main__.model.layers[3].weight";
    let found = document(&lab, &["paths", "a.heap", path]);
    assert_eq!(found["object"]["address"], format!("{weight:#x}"));
    assert_eq!(
        (&found["object"]["payload_bytes"], &found["object"]["element"]),
        (&16_384.into(), &"float32".into())
    );
    let paths = found["paths"].as_array().expect("paths");
    assert!(paths.iter().any(|found| found["text"] == path), "{paths:#?}");
    let arrays = screen(&lab, &["a.heap", "--arrays", "--under", "__main__.model"]);
    assert!(arrays.contains("float32 (64, 64)"), "{arrays}");
}
