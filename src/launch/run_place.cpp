#include "src/launch/run_place.h"

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

namespace fs = std::filesystem;

Place place_in(const std::vector<std::string>& words, const std::string& command, const std::string& what) {
  if (words.empty() || words.front().starts_with("-")) {
    fail(ExitCode::usage, "{0}: the first word must be {1}: carillon {0} {1} (see carillon --help)", command, what);
  }
  Place place{words.front(), {words.begin() + 1, words.end()}};
  std::error_code absent;
  if (!fs::exists(place.path, absent)) fail(ExitCode::no_input, "{}: no such file or folder", place.path.string());
  return place;
}

fs::path report_page(const fs::path& train_dir) { return train_dir / "report.html"; }

fs::path trained_network(const fs::path& train_dir) {
  const fs::path best = best_checkpoint_path(train_dir);
  std::error_code absent;
  return fs::exists(best, absent) ? best : train_dir;
}

fs::path checkpoint_of(const fs::path& place) {
  std::error_code error;
  return fs::is_directory(place, error) ? trained_network(place) : place;
}

fs::path folder_of(const fs::path& run) {
  std::error_code error;
  if (fs::is_directory(run, error)) return run;
  const fs::path parent = run.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace carillon
