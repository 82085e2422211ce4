"""What the tests' Jupyter server is told beyond its command line.

Jupyter's server lists a kernel that has just started before it has noted the kernel's last activity, and then answers
the whole list with status 500 (jupyter-server/enterprise_gateway#1395). A page that asks at that moment has an error
in its console that isn't ours. Here such a kernel is left out of the list until it is complete.
"""

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager


class CompleteKernels(AsyncMappingKernelManager):
    def kernel_model(self, kernel_id):
        if not self.get_kernel(kernel_id).trait_has_value("last_activity"):
            raise KeyError(kernel_id)  # which `list_kernels` passes over
        return super().kernel_model(kernel_id)


c = get_config()  # noqa: F821
c.ServerApp.kernel_manager_class = CompleteKernels
