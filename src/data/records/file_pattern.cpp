#include "src/data/records/file_pattern.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "carillon/core/error.h"

namespace carillon {
namespace {

struct GlobMatches {
  glob_t found{};
  GlobMatches() = default;
  GlobMatches(const GlobMatches&) = delete;
  GlobMatches& operator=(const GlobMatches&) = delete;
  ~GlobMatches() { ::globfree(&found); }
};

std::vector<std::string> glob_matches(const std::string& pattern) {
  GlobMatches matches;
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches.found);
  if (result == GLOB_NOMATCH) fail(ExitCode::no_input, "{}: no file matches", pattern);
  if (result != 0) fail(ExitCode::io, "{}: cannot list the files that match the pattern", pattern);
  std::vector<std::string> files(matches.found.gl_pathv, matches.found.gl_pathv + matches.found.gl_pathc);
  std::ranges::sort(files);  // by bytes: the same order in every locale
  return files;
}

}  // namespace

std::vector<std::string> expand_file_patterns(std::span<const std::string> patterns) {
  if (patterns.empty()) fail(ExitCode::no_input, "no data file is given");
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::error_code ignored;
    const bool is_glob = pattern.find_first_of("*?[") != std::string::npos;
    if (!is_glob || std::filesystem::exists(pattern, ignored)) {
      files.push_back(pattern);
    } else {
      std::ranges::move(glob_matches(pattern), std::back_inserter(files));
    }
  }
  return files;
}

}  // namespace carillon
