// Fuzzes option files (--config) of a training. For any text, the program must either set a valid combination of
// options or throw Error(usage). If the resulting options are written to a file, this file must set the same options.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "src/cli/options/option_groups.h"
#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

/// Writes all options that were given to `set` as an option file.
std::string config_of(const OptionSet& set) {
  std::string config;
  for (const Field& field : set.values().fields()) {
    const std::string name = shown_name(field.name).substr(2);
    const auto add = [&](const nlohmann::json& single) {
      config += fmt::format("{} = {}\n", name, single.is_string() ? single.get<std::string>() : single.dump());
    };
    if (!set.given(name)) continue;
    const auto value = nlohmann::json::parse(json_text(field.value));
    if (value.is_array()) {
      for (const auto& single : value) add(single);
    } else if (value != "") {  // an option file cannot set an empty value
      add(value);
    }
  }
  return config;
}

struct Parsed {
  std::string values;  ///< all options as JSON
  std::string config;  ///< result of config_of
};

/// Returns the options that `config` sets, or nullopt if the program rejects it.
std::optional<Parsed> options_of(std::string_view config) {
  static const ScratchFile file;
  file.assign(std::as_bytes(std::span(config)));
  const std::string path = file.path();
  const char* const arguments[] = {"fuzzer", "--config", path.c_str()};
  return accepted(
      "--",
      [&] {
        TrainOptions options;
        options.checkpoint.train_dir = "runs";
        OptionSet set;
        declare(set, options);
        fuzz_check(set.parse(3, arguments));
        check_combinations(set, options);
        return Parsed{set.values().json(), config_of(set)};
      },
      ExitCode::usage);
}

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return setenv("SLURM_JOB_END_TIME", "4000000000", 1);  // time-limit = slurm reads it
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view config(reinterpret_cast<const char*>(data), size);
  const auto options = carillon::options_of(config);
  if (!options) return 0;
  const auto again = carillon::options_of(options->config);
  carillon::fuzz_check(again && again->values == options->values);
  return 0;
}
