# Run in the root of the sources: spack repo add jobs/install/spack && spack dev-build carillon@0.1.0
from spack.package import *


class Carillon(CMakePackage, CudaPackage):
    """Trains image classifiers with synchronous data parallelism under MPI."""

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("boost+program_options")
    depends_on("curl@7.85:")
    depends_on("eigen@3.4:")
    depends_on("fmt")
    depends_on("giflib@5:")
    depends_on("hdf5~mpi")
    depends_on("hwloc")
    depends_on("isa-l")
    depends_on("libarchive")
    depends_on("libjpeg-turbo")
    depends_on("libpng")
    depends_on("freetype")
    depends_on("libtiff@4.5:")
    depends_on("libwebp")
    depends_on("mpi")
    depends_on("nlohmann-json")
    depends_on("onednn cpu_runtime=omp")
    depends_on("openssl@1.1.1:")
    depends_on("protobuf@3.12:3.21")
    depends_on("zlib-api")
    with when("+cuda"):
        depends_on("cuda@12.8:")
        depends_on("cudnn@9:")
        depends_on("cudnn-frontend")
        depends_on("nccl@2.27:")

    def cmake_args(self):
        args = [self.define("CARILLON_TESTS", False), self.define_from_variant("CARILLON_CUDA", "cuda")]
        if self.spec.satisfies("+cuda") and "none" not in self.spec.variants["cuda_arch"].value:
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", list(self.spec.variants["cuda_arch"].value)))
        return args
