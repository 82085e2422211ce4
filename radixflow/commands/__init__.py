"""The commands of `radixflow`, a file for each thing people do: parse, call, print."""

from radixflow.commands.shared import app as app

# isort: off
# In the order in which help lists them.
import radixflow.commands.run
import radixflow.commands.reading
import radixflow.commands.export
import radixflow.commands.serving
import radixflow.commands.experiments
import radixflow.commands.about  # noqa: F401
# isort: on
