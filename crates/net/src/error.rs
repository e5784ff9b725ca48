//! Why something could not be done with an interface.

use std::io;
use std::path::PathBuf;

/// Each names the interface, file or process that it is about.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// The kernel refused a request.
    #[error("{doing}: {source}")]
    Kernel { doing: String, source: io::Error },
    /// The kernel's answer is not understood.
    #[error("{doing}: the kernel's answer is not understood")]
    Answer { doing: String },
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("process {pid}: {source}")]
    Process { pid: i32, source: io::Error },
    #[error("process {pid}, descriptor {descriptor}: {source}")]
    Socket {
        pid: i32,
        descriptor: i32,
        source: io::Error,
    },
    /// A line of the journal that this program did not write.
    #[error("{}: {why}", .path.display())]
    Journal { path: PathBuf, why: String },
}
