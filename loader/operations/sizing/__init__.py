"""How large a database will be, and how long a build of it takes: from a sample that is built."""

from loader.operations.sizing.model import Forecast, TableForecast
from loader.operations.sizing.sampled import forecast

__all__ = ["Forecast", "TableForecast", "forecast"]
