#include "src/train/preflight/preflight.h"

#include <cerrno>
#include <cstdio>

#include "carillon/core/error.h"
#include "src/report/console.h"
#include "src/train/preflight/preflight_averaging.h"
#include "src/train/preflight/preflight_directory.h"
#include "src/train/preflight/preflight_memory.h"
#include "src/train/preflight/preflight_tables.h"

namespace carillon {
namespace {

/// Prints rank 0's text on stdout. Collective. Errors: io.
void tell(const std::string& text, const Mpi& mpi) {
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
      fail(ExitCode::io, "cannot write to standard output: {}", errno_text(errno));
    }
  });
}

}  // namespace

void preflight(const PreflightSubject& subject, const CpuShare& cpu, const Mpi& mpi, Device& device,
               Communicator& communicator) {
  const std::vector<RankFacts> ranks = gather_facts(subject.instructions, cpu, mpi, device);
  tell(fmt::format("{}\n{}\n{}\n", subject.version, rank_table(ranks), host_table(ranks)), mpi);
  for (const std::string& warning : {shared_cpus(ranks), small_dev_shm(ranks)}) {
    if (mpi.rank() == 0 && !warning.empty()) print_warning(warning);
  }
  const std::string shared = shared_gpus(mpi, device);
  mpi.run_on_all([&] {
    if (shared.empty() || subject.shares_gpus) return;
    fail(ExitCode::usage, "preflight: {}: start one rank per GPU, or add --share-gpus", shared);
  });
  tell(check_train_directory(subject.train_dir, mpi), mpi);
  tell(try_shared_memory(subject.shared_bytes, mpi), mpi);
  tell(try_averaging(subject, mpi, device, communicator), mpi);
  tell("preflight: ready; data and checkpoints were not checked\n", mpi);
}

}  // namespace carillon
