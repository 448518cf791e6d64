"""What is being done, how fast (recent and average), how long still: on a terminal, as lines, or as JSON.

A step hands its `Meter` to whoever works; native calls count into `Counters` that the meter adds up.
One thread samples the meter; nothing here is called once an entry.
"""

from loader.progress.meter import SCHEMA_VERSION as SCHEMA_VERSION
from loader.progress.meter import Meter as Meter
from loader.progress.meter import Sample as Sample
from loader.progress.meter import Sampler as Sampler
from loader.progress.meter import Staged as Staged
from loader.progress.meter import WholeFile as WholeFile
from loader.progress.recorder import Recorder as Recorder
from loader.progress.recorder import StepRecord as StepRecord
from loader.progress.show import Progress as Progress
