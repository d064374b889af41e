// Fuzzes the text of the options that a checkpoint contains and a resumed run reads. For any text, the run must be able
// to compare these options with its own options, and to read the best score so far. If the text describes the run's own
// options, the comparison must find no change.
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_format.h"
#include "src/cli/options/run_description.h"
#include "src/tasks/classification_metric.h"
#include "src/train/checkpointing/best_checkpoint.h"
#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

RunDescription description() {
  RunDescription description;
  description.add("batch_size", std::int64_t{100}, Scope::result);
  description.add("learning_rate", 0.1, Scope::result);
  description.add("shuffle", true, Scope::result);
  description.add("seed", ~std::uint64_t{0}, Scope::result);
  description.add("precision", std::string("fp32"), Scope::result);
  description.add("instruction set", std::string("avx2"), Scope::result);
  description.add("evaluation record checksum", std::uint64_t{7}, Scope::run);
  return description;
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  static const ScratchDirectory directory;
  static const RunDescription run = description();
  const std::string options(data, data + size);
  try {
    CheckpointBounds(ExitCode::failed, "checkpoint").check_options(options);
  } catch (const Error&) {
    return 0;  // a checkpoint cannot hold this text
  }
  fuzz_check(run.changes_since(options).size() <= run.fields().size());
  fuzz_check(run.changes_since(run.json()).empty());
  directory.write("best.ckpt.h5", encode_checkpoint({.model = "m", .options_json = options}));
  const Score form = Accuracy{}.score();
  const auto best = best_score(directory.path(""), no_size_limit, form, run, [](const std::string&) {});
  if (best) fuzz_check(best->score.ratio->whole > 0);
  return 0;
}
