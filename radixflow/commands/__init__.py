"""The commands of `radixflow`, a file for each thing people do: parse, call, print."""
