//! First phase of a build: workers encode chunks in parallel, and the results are collected in the order of the input.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use extsort::Postings;
use workers::Crew;

use crate::build::Build;
use crate::encoded::Encoded;
use crate::gather::EncodedInput;
use crate::live::SeenEntries;
use crate::worker::Worker;
use crate::{Code, Error, Result};

impl Build<'_> {
    pub(crate) fn read(&self, postings: &Postings) -> Result<EncodedInput> {
        let bearer = self.shared.options.write_context.then(|| self.shared.suffixes.first()).flatten();
        let mut gathered = EncodedInput::new(self.create()?, self.shared.options, &self.temp, bearer);
        if let Some(live) = self.live {
            gathered.live = Some(SeenEntries::new(&self.temp, live.head.map(Path::to_path_buf)));
        }
        self.read_available(postings, &mut gathered)?;
        if gathered.records == 0 {
            return Err(Error::new(Code::Empty, "the input has no entry"));
        }
        Ok(gathered)
    }

    /// Reads all inputs that [`Self::chunks`] has now.
    pub(crate) fn read_available(&self, postings: &Postings, gathered: &mut EncodedInput) -> Result<()> {
        let (send, results) = sync_channel(2 * self.temp.threads);
        let (recycle, used) = channel();
        let used = Mutex::new(used);
        let stop = || {
            self.chunks.stop();
            self.shared.positions.abandon();
            self.shared.numbers.abandon();
        };
        let crew = Crew::new(&stop);
        thread::scope(|scope| {
            for _ in 0..self.temp.threads {
                let (send, postings) = (send.clone(), postings.writer());
                let (crew, used) = (&crew, &used);
                scope.spawn(move || crew.run(|| self.work(postings, &send, used)));
            }
            drop(send);
            crew.run(|| collect(&results, &recycle, gathered));
            if gathered.exceeds_max_rejects() {
                crew.dismiss();
            }
            // Workers that wait for room in the channel end when it is closed.
            drop(results);
        });
        crew.end()
    }

    fn work(
        &self,
        postings: extsort::Writer,
        send: &SyncSender<Encoded>,
        used: &Mutex<Receiver<Encoded>>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let mut worker = Worker::new(&self.chunks, &self.shared, postings)?;
        loop {
            let mut out = crate::lock(used).try_recv().unwrap_or_default();
            if !worker.next(&mut buffer, &mut out)? || send.send(out).is_err() {
                return Ok(());
            }
        }
    }
}

/// Collects results in the order of their chunks, until all workers are done.
fn collect(results: &Receiver<Encoded>, recycle: &Sender<Encoded>, gathered: &mut EncodedInput) -> Result<()> {
    let mut waiting = BTreeMap::new();
    for chunk in results {
        waiting.insert(chunk.number, chunk);
        while let Some(mut chunk) = waiting.remove(&gathered.chunks) {
            gathered.take(&mut chunk)?;
            gathered.chunks += 1;
            let _ = recycle.send(chunk);
        }
        if gathered.exceeds_max_rejects() {
            break;
        }
    }
    Ok(())
}
