//! Patterns of names: `*` stands for any characters, everything else for itself.

/// Does the whole text match?
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

/// A call of Python code: `FILE:FUNCTION`. The file's pattern may match any end of a path that begins with a folder's or
/// a file's name; the function's the name or, where names are qualified, what follows the last dot. Without `:`
/// any function of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    file: String,
    function: String,
}

impl Call {
    pub fn parse(text: &str) -> Self {
        let (file, function) = text.rsplit_once(':').unwrap_or((text, "*"));
        Self { file: file.to_owned(), function: function.to_owned() }
    }

    pub fn matches(&self, file: &str, function: &str) -> bool {
        self.is_function(function) && self.is_file(file)
    }

    /// Any function is none of the code that runs when a file is imported.
    fn is_function(&self, function: &str) -> bool {
        if function == "<module>" && !self.function.contains('<') {
            return false;
        }
        let short = function.rsplit('.').next().unwrap_or(function);
        matches(&self.function, function) || matches(&self.function, short)
    }

    fn is_file(&self, file: &str) -> bool {
        let starts = file.match_indices('/').map(|(at, _)| at + 1);
        std::iter::once(0).chain(starts).any(|at| file.get(at..).is_some_and(|end| matches(&self.file, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, is_it) in [
            ("step", "step", true),
            ("step", "steps", false),
            ("*step", "AdamW.step", true),
            ("torch/optim/*.py", "torch/optim/adamw.py", true),
            ("at::native::*conv*", "at::native::mkldnn_convolution", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("", "", true),
            ("é*", "été", true),
        ] {
            assert_eq!(matches(pattern, text), is_it, "{pattern} {text}");
        }
    }

    #[test]
    fn a_call_is_a_file_and_a_function() {
        let call = Call::parse("torch/optim/*.py:step");
        assert!(call.matches("/v/lib/python3.11/site-packages/torch/optim/adamw.py", "AdamW.step"));
        assert!(call.matches("torch/optim/sgd.py", "step"));
        assert!(!call.matches("/home/me/mytorch/optim/sgd.py", "step"));
        assert!(!call.matches("/torch/optim/sgd.py", "stepper"));
        assert!(Call::parse("torch/_dynamo/*").matches("/x/torch/_dynamo/eval.py", "anything"));
        assert!(!Call::parse("torch/_dynamo/*").matches("/x/torch/_dynamo/eval.py", "<module>"));
    }
}
