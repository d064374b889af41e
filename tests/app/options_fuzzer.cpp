// Fuzzes option files (--config) with a training's options: any text either sets options that work together or throws
// Error(usage); what it sets, written as a file again, sets the same.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "carillon/app/options.h"
#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

/// The options as JSON text after `config` was read; nothing where it is refused.
std::optional<std::string> options_of(std::string_view config) {
  static const ScratchFile file;
  file.assign(std::as_bytes(std::span(config)));
  const std::string path = file.path();
  const char* const arguments[] = {"fuzzer", "--config", path.c_str()};
  return accepted(
      "--",
      [&] {
        TrainOptions options;
        options.train_dir = "runs";
        OptionSet set("");
        declare(set, options);
        fuzz_check(set.parse(3, arguments));
        check_combinations(options);
        return set.values().json();
      },
      ExitCode::usage);
}

std::string config_of(const std::string& options) {
  std::string config;
  const auto object = nlohmann::json::parse(options);
  for (const auto& [name, value] : object.items()) {
    const auto add = [&, name = name](const nlohmann::json& single) {
      config += fmt::format("{} = {}\n", name, single.is_string() ? single.get<std::string>() : single.dump());
    };
    if (value.is_array()) {
      for (const auto& single : value) add(single);
    } else if (value != "") {  // which no file can set
      add(value);
    }
  }
  return config;
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return setenv("SLURM_JOB_END_TIME", "4000000000", 1);  // for time-limit = slurm
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view config(reinterpret_cast<const char*>(data), size);
  const auto options = carillon::options_of(config);
  if (!options) return 0;
  const auto again = carillon::options_of(carillon::config_of(*options));
  carillon::fuzz_check(again == options);
  return 0;
}
