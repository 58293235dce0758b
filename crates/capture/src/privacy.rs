//! What may be stored of command lines and environments.
//!
//! Run directories are made to be sent to colleagues: secrets are masked when they are recorded, not when
//! they are shown. Masking errs on the side of hiding.

/// Stands where a secret stood.
pub const MASK: &str = "***";

/// Variables worth keeping to compare two runs; everything else stays out of the manifest.
const KEPT_VARIABLES: [&str; 45] = [
    "CONDA_DEFAULT_ENV",
    "CUDA_VISIBLE_DEVICES",
    "GROUP_RANK",
    "LD_PRELOAD",
    "LOCAL_RANK",
    "LRU_CACHE_CAPACITY",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_NUM_THREADS",
    "NILO_RANK",
    "NILO_RUN",
    "NUMEXPR_NUM_THREADS",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMP_NUM_THREADS",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
    "OPENBLAS_NUM_THREADS",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "PYTHONHASHSEED",
    "PYTHONMALLOC",
    "PYTHONTRACEMALLOC",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "RANK",
    "RAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_ID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_RESTART_COUNT",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "VIRTUAL_ENV",
    "WORLD_SIZE",
    "XLA_FLAGS",
];

/// Words in an option's or variable's name that make its value a secret.
const SECRET_WORDS: [&str; 9] =
    ["password", "passwd", "secret", "token", "apikey", "api-key", "api_key", "credential", "private-key"];

/// Beginnings of well-known access tokens.
const TOKEN_PREFIXES: [&str; 9] =
    ["hf_", "ghp_", "gho_", "github_pat_", "sk-", "xoxb-", "xoxp-", "AKIA", "glpat-"];

/// Is this variable kept in the manifest?
pub fn keeps_variable(name: &str) -> bool {
    KEPT_VARIABLES.binary_search(&name).is_ok()
}

/// The arguments with secrets masked: `--token=x`, `--token x`, `API_KEY=x`, `user:x@host`, known tokens.
pub fn mask_arguments(arguments: &[String]) -> Vec<String> {
    let mut next_is_secret = false;
    arguments
        .iter()
        .map(|argument| {
            let masked = if next_is_secret && !argument.starts_with('-') {
                MASK.to_owned()
            } else {
                mask_argument(argument)
            };
            next_is_secret = argument.starts_with('-') && !argument.contains('=') && names_secret(argument);
            masked
        })
        .collect()
}

fn mask_argument(argument: &str) -> String {
    if let Some((name, _)) = argument.split_once('=')
        && names_secret(name)
        && !name.contains(char::is_whitespace)
    {
        return format!("{name}={MASK}");
    }
    let without_login = mask_login(argument);
    mask_tokens(&without_login)
}

fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// `scheme://user:password@host` keeps the user and the host.
fn mask_login(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    match authority.rsplit_once('@').and_then(|(login, host)| Some((login.split_once(':')?.0, host))) {
        Some((user, host)) => format!("{scheme}://{user}:{MASK}@{host}{path}"),
        None => argument.to_owned(),
    }
}

/// Masks words that begin like a known kind of token and are long enough to be one.
fn mask_tokens(text: &str) -> String {
    let is_token =
        |word: &str| TOKEN_PREFIXES.iter().any(|p| word.starts_with(p) && word.len() >= p.len() + 12);
    if !text.split(is_delimiter).any(is_token) {
        return text.to_owned();
    }
    text.split_inclusive(is_delimiter)
        .map(|piece| {
            let word = piece.trim_end_matches(is_delimiter);
            if is_token(word) { format!("{MASK}{}", &piece[word.len()..]) } else { piece.to_owned() }
        })
        .collect()
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\'' | '"' | '=' | ',' | ':' | '/' | '&' | '?' | '(' | ')')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(arguments: &[&str]) -> Vec<String> {
        mask_arguments(&arguments.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn kept_variables_are_sorted_for_the_binary_search() {
        assert!(KEPT_VARIABLES.is_sorted());
        assert!(keeps_variable("OMP_NUM_THREADS"));
        assert!(!keeps_variable("AWS_SECRET_ACCESS_KEY"));
    }

    #[test]
    fn values_of_secret_options_are_masked_in_both_spellings() {
        assert_eq!(masked(&["a", "--password=x y"]), ["a", "--password=***"]);
        assert_eq!(masked(&["--hub-token", "abc", "--lr", "3"]), ["--hub-token", "***", "--lr", "3"]);
        assert_eq!(masked(&["env", "WANDB_API_KEY=123", "python"]), ["env", "WANDB_API_KEY=***", "python"]);
        assert_eq!(masked(&["--token", "--verbose"]), ["--token", "--verbose"]);
    }

    #[test]
    fn logins_and_known_tokens_are_masked() {
        assert_eq!(masked(&["s3://me:pw@host/a:b@c"]), ["s3://me:***@host/a:b@c"]);
        assert_eq!(masked(&["-c", "login('hf_abcdefghijklmnop')"]), ["-c", "login('***')"]);
        assert_eq!(masked(&["x=hf_abcdefghijklmnop"]), ["x=***"]);
    }

    #[test]
    fn ordinary_arguments_stay() {
        let plain = ["python", "train.py", "--tokenizer-path", "a/b", "--lr=0.1", "sk-short", "http://a/b"];
        // `--tokenizer-path` contains "token": hiding too much is the chosen error.
        assert_eq!(
            masked(&plain),
            ["python", "train.py", "--tokenizer-path", "***", "--lr=0.1", "sk-short", "http://a/b"]
        );
    }
}
