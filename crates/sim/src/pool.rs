//! Many runs on all cores, in processes. Threads (such as rayon's) cannot do it: the scheduler's
//! variables are C globals, so a process plays one simulation at a time.
//!
//! Each worker is this executable again. It reads one job a line (JSON) and writes one answer a
//! line. Answers are returned in the order of their jobs, whatever the number of cores.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use serde::de::DeserializeOwned;
use serde::Serialize;

/// Why some answers are missing.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// This executable cannot be found or started again, or a pipe broke.
    #[error("starting a worker: {0}")]
    Start(io::Error),
    /// A worker ended before it answered. It wrote its messages to the standard error of this
    /// process.
    #[error("a worker ended while it had this job: {0}")]
    Ended(String),
    /// A worker's answer is malformed.
    #[error("a worker's answer: {0}")]
    Answer(serde_json::Error),
}

/// The number of workers to run at a time: one for each core.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Do the jobs in at most `workers` child processes: this executable with `args`. After each job
/// `progress` is called with the number of completed jobs.
///
/// # Errors
/// The first error. The other workers end after their current job.
pub fn spread<J: Serialize + Sync, A: DeserializeOwned + Send>(
    args: &[&str],
    jobs: &[J],
    workers: usize,
    mut progress: impl FnMut(usize),
) -> Result<Vec<A>, PoolError> {
    let next = AtomicUsize::new(0);
    let (send, answers) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers.clamp(1, jobs.len().max(1)) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                let result = serve(args, jobs, next, &send);
                if let Err(error) = result {
                    next.store(jobs.len(), Ordering::Relaxed); // no new jobs
                    let _ = send.send(Err(error));
                }
            });
        }
        drop(send);
        let mut done: Vec<Option<A>> = jobs.iter().map(|_| None).collect();
        let mut failed = None;
        for (count, answer) in answers.iter().enumerate() {
            match answer {
                Ok((at, answer)) => done[at] = Some(answer),
                Err(error) => failed = failed.or(Some(error)),
            }
            progress(count + 1);
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(done.into_iter().flatten().collect()),
        }
    })
}

/// Start one worker, and feed it until there are no more jobs.
fn serve<J: Serialize, A: DeserializeOwned>(
    args: &[&str],
    jobs: &[J],
    next: &AtomicUsize,
    send: &mpsc::Sender<Result<(usize, A), PoolError>>,
) -> Result<(), PoolError> {
    let exe = std::env::current_exe().map_err(PoolError::Start)?;
    let mut worker = Worker(
        Command::new(exe)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(PoolError::Start)?,
    );
    let missing = || PoolError::Start(io::ErrorKind::BrokenPipe.into());
    let mut to = worker.0.stdin.take().ok_or_else(missing)?;
    let mut from = BufReader::new(worker.0.stdout.take().ok_or_else(missing)?);
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(at) else {
            return Ok(());
        };
        let job = serde_json::to_string(job).map_err(PoolError::Answer)?;
        let mut answer = String::new();
        let asked = writeln!(to, "{job}").and_then(|()| to.flush());
        let read = asked.and_then(|()| from.read_line(&mut answer));
        if !read.is_ok_and(|bytes| bytes > 0) {
            return Err(PoolError::Ended(job));
        }
        let answer = serde_json::from_str(&answer).map_err(PoolError::Answer)?;
        let _ = send.send(Ok((at, answer)));
    }
}

/// A child process. Drop closes its standard input, so that it ends, and waits for its end.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The worker's side: answer jobs from standard input until its end.
///
/// # Errors
/// A broken pipe (the parent has ended), or a line that is not a job.
pub fn answer<J: DeserializeOwned, A: Serialize>(mut work: impl FnMut(J) -> A) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let answer = work(serde_json::from_str(&line?)?);
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
        out.flush()?;
    }
    Ok(())
}
