// libFuzzer target: reads any file as an ONNX file and folds its constants. This must not crash, and must not read
// beyond the data. If the file is rejected, there must be one line and exit code 65. The exit code must be 66 if the
// file refers to values in another file that does not exist.
#include <map>

#include "src/onnx/constant_folding.h"
#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

/// Computes all nodes with inputs that are constants, directly or indirectly.
void fold_all(const OnnxFile& file) {
  std::map<std::string, OnnxConstant> known = file.constants();
  std::size_t elements = 0;
  for (const OnnxNode& node : file.nodes()) {
    std::vector<OnnxConstant> inputs;
    bool are_known = can_fold(node.type());
    for (int i = 0; i < node.input_count(); ++i) {
      const auto found = known.find(node.input(i));
      inputs.push_back(found == known.end() ? nullptr : found->second);
      are_known = are_known && (node.input(i).empty() || inputs.back() != nullptr);
    }
    if (!are_known) continue;
    const OnnxConstant result = fold(node, inputs, file.operator_set(), file);
    const std::size_t count = result->has_floats ? result->floats.size() : result->integers.size();
    fuzz_check(count == static_cast<std::size_t>(result->element_count()));
    if ((elements += count) > 1'000'000) return;  // limits the work for one input
    known[node.output()] = result;
  }
}

void load(const std::filesystem::path& path) {
  try {
    fold_all(OnnxFile(path));
  } catch (const Error& error) {
    fuzz_check(error.code() == ExitCode::data || error.code() == ExitCode::no_input);
    fuzz_check(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const carillon::ScratchDirectory directory;
  carillon::load(directory.write("a.onnx", std::as_bytes(std::span(data, size))));
  return 0;
}
