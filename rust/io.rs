//! Threads for work that may block (fsync, cold reads, large writes, recovery), and the queue through which their results come back to the loop.
//!
//! The loop never waits for a disk: it submits a job with a token, goes on, and finds `Completion { token, value }` in the queue when the
//! queue's descriptor becomes readable. Appends and cold reads run on different pools, so that neither waits behind the other.
//!
//! A job that panics is over, and its thread goes on with the next. Whoever waits for a result submits it as [`IoPool::work`], which hands the
//! panic on as an error.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

pub mod panics;

use panics::{Panicked, catching, outcome};

type Job = Box<dyn FnOnce() + Send + 'static>;

struct Queue {
    jobs: Mutex<(VecDeque<Job>, bool)>,
    wake: Condvar,
}

/// A fixed number of threads that run jobs in the order of their submission. Dropping it finishes what was submitted, then ends the threads.
pub struct IoPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl IoPool {
    pub fn new(name: &str, threads: usize) -> std::io::Result<Self> {
        let queue = Arc::new(Queue {
            jobs: Mutex::new((VecDeque::new(), false)),
            wake: Condvar::new(),
        });
        let threads = (0..threads)
            .map(|index| {
                let queue = Arc::clone(&queue);
                std::thread::Builder::new()
                    .name(format!("{name}-{index}"))
                    .spawn(move || run(&queue))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { queue, threads })
    }

    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.jobs.lock().0.push_back(Box::new(job));
        self.queue.wake.notify_one();
    }

    /// Has a thread do `work`, which calls `done` once with what comes of it: an error that tells of the panic if it panicked.
    pub fn work<T, E: From<Panicked>>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
        done: impl FnOnce(Result<T, E>) + Send + 'static,
    ) {
        self.submit(move || done(outcome(work)));
    }
}

/// The threads that read what is not in the page cache, for all logs and sockets of the process: a disk serves few readers well at once, and one
/// cold consumer should not stop another.
const COLD_READERS: usize = 2;

/// Has a thread of those that may wait for cold bytes do `work`, or does it now if the system gives no threads. `done` is called once with what
/// comes of it: an error that tells of the panic if it panicked.
pub fn read_cold<T, E: From<Panicked>>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
    done: impl FnOnce(Result<T, E>) + Send + 'static,
) {
    static POOL: OnceLock<Option<IoPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| IoPool::new("ottla-cold-read", COLD_READERS).ok());
    match pool {
        Some(pool) => pool.work(work, done),
        None => done(outcome(work)),
    }
}

/// Has a thread do what nobody waits for, or does it now if the system gives no thread.
pub fn aside(work: impl FnOnce() + Send + 'static) {
    static POOL: OnceLock<Option<IoPool>> = OnceLock::new();
    match POOL.get_or_init(|| IoPool::new("ottla-aside", 1).ok()) {
        Some(pool) => pool.submit(work),
        None => work(),
    }
}

fn run(queue: &Queue) {
    loop {
        let mut jobs = queue.jobs.lock();
        while jobs.0.is_empty() && !jobs.1 {
            queue.wake.wait(&mut jobs);
        }
        let Some(job) = jobs.0.pop_front() else {
            return;
        };
        drop(jobs);
        // It has been told of; the next job has nothing to do with it.
        let _ = catching(job);
    }
}

impl Drop for IoPool {
    fn drop(&mut self) {
        self.queue.jobs.lock().1 = true;
        self.queue.wake.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A descriptor that becomes readable when any thread calls `signal`, until the loop calls `clear`.
pub struct Wake {
    event: OwnedFd,
    signalled: AtomicBool,
}

impl Wake {
    #[cfg(target_os = "linux")]
    pub fn new() -> std::io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            signalled: AtomicBool::new(false),
        })
    }

    /// Cheap when somebody signalled already: one system call for any number of signals between two `clear`s.
    pub fn signal(&self) {
        if !self.signalled.swap(true, Ordering::AcqRel) {
            // The counter can only fail to grow when it is already readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// To be called before looking at what the signals were about, so that a signal given meanwhile is not lost.
    pub fn clear(&self) {
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&self.event, &mut counter);
        self.signalled.store(false, Ordering::Release);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// The result that a job hands back to the loop.
#[derive(Debug)]
pub struct Completion<T> {
    pub token: u64,
    pub value: T,
}

/// Results on their way to the loop; any thread pushes, the loop drains when `fd` is readable.
pub struct Completions<T> {
    queue: Mutex<Vec<Completion<T>>>,
    wake: Arc<Wake>,
    later: Mutex<Later>,
}

/// Work that can wait until the loop has sent what it has.
#[derive(Default)]
struct Later {
    is_sending: bool,
    jobs: Vec<Job>,
}

impl<T> Completions<T> {
    #[cfg(target_os = "linux")]
    pub fn new() -> std::io::Result<Self> {
        Ok(Self::with_wake(Arc::new(Wake::new()?)))
    }

    /// A queue that shares its descriptor with others.
    pub fn with_wake(wake: Arc<Wake>) -> Self {
        Self {
            queue: Mutex::new(Vec::new()),
            wake,
            later: Mutex::default(),
        }
    }

    /// Starts work on other threads once the loop has sent what its turn brought about, or now if it is in none. A thread
    /// that was woken first would take the processor from whoever gets what is sent.
    pub fn after_sending(&self, start: impl FnOnce() + Send + 'static) {
        let mut later = self.later.lock();
        if later.is_sending {
            later.jobs.push(Box::new(start));
            return;
        }
        drop(later);
        start();
    }

    /// From now on work waits, until `sent`.
    pub fn will_send(&self) {
        self.later.lock().is_sending = true;
    }

    /// Starts what waited.
    pub fn sent(&self) {
        let mut later = self.later.lock();
        later.is_sending = false;
        let jobs = std::mem::take(&mut later.jobs);
        drop(later);
        for start in jobs {
            start();
        }
    }

    pub fn push(&self, token: u64, value: T) {
        self.queue.lock().push(Completion { token, value });
        self.wake.signal();
    }

    /// Everything pushed since the last call, in the order of the pushes.
    pub fn drain(&self) -> Vec<Completion<T>> {
        self.wake.clear();
        std::mem::take(&mut *self.queue.lock())
    }

    pub fn wake(&self) -> &Arc<Wake> {
        &self.wake
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_and_report() {
        let completions = Arc::new(Completions::new().unwrap());
        let pool = IoPool::new("test", 2).unwrap();
        for token in 0..100 {
            let completions = Arc::clone(&completions);
            pool.submit(move || completions.push(token, token * 2));
        }
        drop(pool);
        let mut all: Vec<_> = completions
            .drain()
            .into_iter()
            .map(|c| (c.token, c.value))
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).map(|t| (t, t * 2)).collect::<Vec<_>>());
        assert!(completions.drain().is_empty());
    }

    #[test]
    fn a_panic_fails_its_job_and_the_thread_goes_on() {
        let completions: Arc<Completions<Result<i32, Panicked>>> =
            Arc::new(Completions::new().unwrap());
        let pool = IoPool::new("test", 1).unwrap();
        let works: [fn() -> i32; 3] = [|| 1, || panic!("in the work"), || 3];
        for (token, work) in (0..).zip(works) {
            let completions = Arc::clone(&completions);
            pool.work(
                move || Ok(work()),
                move |done| completions.push(token, done),
            );
            pool.submit(|| panic!("in a job"));
        }
        drop(pool);
        let mut values = completions.drain().into_iter().map(|c| c.value);
        assert_eq!(values.next(), Some(Ok(1)));
        let panicked = values.next().unwrap().unwrap_err();
        assert_eq!(panicked.message, "in the work");
        assert!(panicked.place.starts_with(file!()), "{panicked}");
        assert_eq!(values.next(), Some(Ok(3)));
    }

    #[test]
    fn a_signal_makes_the_descriptor_readable_until_it_is_cleared() {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let wake = Wake::new().unwrap();
        let readable = || {
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            poll(&mut [PollFd::new(&wake.fd(), PollFlags::IN)], Some(&now)).unwrap() == 1
        };
        assert!(!readable());
        wake.signal();
        wake.signal();
        assert!(readable());
        wake.clear();
        assert!(!readable());
        wake.signal();
        assert!(readable());
    }
}
