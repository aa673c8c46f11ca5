"""The long runs, which produce the published evidence."""

from .benchmark import Benchmark
from .fuzzing import Fuzz
from .kill import Kill
from .mutation import Mutation
from .outages import Outages
from .simulator import Engine, Guards, Model, Simulation
from .storms import Storms

# The benchmark is first, while the machine is still idle.
RUNS = [Benchmark(), Model(), Simulation(), Guards(), Engine(), Outages(), Storms(), Kill(), Fuzz(), Mutation()]
