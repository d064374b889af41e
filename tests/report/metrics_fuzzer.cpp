// Fuzzes the metrics.jsonl that a resumed run finds. The run resumes from step S. It must keep the file up to the last
// complete line that is a JSON object with a `step` below S. It must remove all text after this line. If the run
// resumes once more, the file must not change.
//
// The first byte of the input is the step from which the run resumes.
#include "src/report/metrics.h"

#include <nlohmann/json.hpp>

#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

std::vector<std::string_view> whole_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

bool is_before(std::string_view line, double first_step) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object()) return false;
  const auto step = record.find("step");
  return step != record.end() && step->is_number() && step->get<double>() < first_step;
}

/// Returns the lines that a run keeps if it resumes from step `first_step`.
std::string resumed(const ScratchDirectory& directory, std::int64_t first_step) {
  const MetricsWriter writer(directory.path(""), first_step, [](const std::string&) { std::abort(); });
  return read_plain_file(directory.path("metrics.jsonl"), "metrics", std::size_t{1} << 30);
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  static const ScratchDirectory directory;
  if (size == 0) return 0;
  const std::int64_t first_step = data[0];
  const std::string text(data + 1, data + size);
  directory.write("metrics.jsonl", std::as_bytes(std::span(text)));
  const std::string kept = resumed(directory, first_step);
  std::string expected, seen;
  for (const auto line : whole_lines(text)) {
    (seen += line) += '\n';
    if (is_before(line, static_cast<double>(first_step))) expected = seen;
  }
  fuzz_check(kept == expected && resumed(directory, first_step) == kept);
  return 0;
}
