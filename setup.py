"""Which folders are packages; everything else is in pyproject.toml."""

from setuptools import Distribution, find_packages, setup

dashboard = ["radixflow_dashboard", *(f"radixflow_dashboard.{name}" for name in find_packages("dashboard"))]


class Project(Distribution):
    # An editable install asks for this name, which setuptools lacks, and leaves data files out where it is missing.
    has_data = Distribution.has_data_files


setup(
    packages=[*find_packages(include=["radixflow", "radixflow.*"]), *dashboard],
    package_dir={"radixflow_dashboard": "dashboard"},
    distclass=Project,
)
