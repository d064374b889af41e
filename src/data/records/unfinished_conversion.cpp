#include "src/data/records/unfinished_conversion.h"

#include <cerrno>
#include <cstdio>
#include <set>
#include <sstream>
#include <vector>

#include "carillon/core/error.h"
#include "src/core/text.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// A file that is to be renamed. Its line in unfinished_conversion.txt contains its size in bytes, its modification
/// time in nanoseconds, its final name and its temporary name. The final name contains no space. If the final name is a
/// symbolic link, the file is in the folder of the link's target.
struct Rename {
  FileStamp stamp;
  std::string name, temporary;
};

std::string text_of(std::span<const Rename> renames) {
  std::string text;
  for (const auto& [stamp, name, temporary] : renames) {
    text += fmt::format("{} {} {} {}\n", stamp.bytes, stamp.changed_nanoseconds, name, temporary);
  }
  return text;
}

std::vector<Rename> read_renames(const fs::path& list) {
  constexpr std::size_t max_bytes = std::size_t{64} << 20;
  std::istringstream text(read_plain_file(list, list.string(), max_bytes));
  std::vector<Rename> renames;
  for (std::string line; std::getline(text, line);) {
    std::istringstream fields(line);
    Rename& next = renames.emplace_back();
    fields >> next.stamp.bytes >> next.stamp.changed_nanoseconds >> next.name;
    fields.get();
    if (!std::getline(fields, next.temporary) || next.temporary.empty()) {
      fail(ExitCode::data, "{}: is not a list of tfrecord_convert: remove it and the record files, and convert again",
           list.string());
    }
  }
  return renames;
}

/// Renames one file. Does nothing if this has already been done.
void rename(const Rename& file, const fs::path& directory) {
  const fs::path path = directory / file.name, target = output_target(path);
  const fs::path temporary = target.parent_path() / file.temporary;
  if (std::rename(temporary.c_str(), target.c_str()) == 0) return;
  const int error = errno;
  if (error != ENOENT) fail(ExitCode::io, "cannot replace {}: {}", path.string(), errno_text(error));
  if (stamp_of(target) == file.stamp) return;
  fail(ExitCode::data,
       "{}: is missing, so the interrupted conversion of this folder cannot be finished: remove {} and the record "
       "files, and convert again",
       temporary.string(), (directory / unfinished_conversion_name).string());
}

}  // namespace

void replace_together(const fs::path& directory, std::span<const std::unique_ptr<NewFile>> files) {
  std::vector<Rename> renames;
  for (const auto& file : files) {
    renames.push_back({.stamp = stamp_of(file->temporary()).value_or(FileStamp{}),
                       .name = file->path().filename().string(),
                       .temporary = file->temporary().filename().string()});
  }
  const std::string text = text_of(renames);
  NewFile list(directory / unfinished_conversion_name, temporary_prefix);
  list.write(std::as_bytes(std::span(text)));
  list.finish();
  list.publish();
  for (const auto& file : files) file->keep();
  sync_directory(list.directory());
  finish_conversion(directory);
}

bool finish_conversion(const fs::path& directory) {
  const fs::path list = directory / unfinished_conversion_name;
  std::error_code error;
  if (!fs::exists(list, error)) return false;
  std::set<fs::path> changed;
  for (const Rename& file : read_renames(list)) {
    rename(file, directory);
    changed.insert(output_target(directory / file.name).parent_path());
  }
  for (const fs::path& folder : changed) sync_directory(folder);
  remove_file(list);
  sync_directory(directory);
  return true;
}

void check_conversions_finished(std::span<const std::string> paths) {
  std::set<fs::path> folders;
  for (const std::string& path : paths) folders.insert(fs::path(path).parent_path());
  for (const fs::path& folder : folders) {
    std::error_code error;
    const fs::path list = folder / unfinished_conversion_name;
    if (!fs::exists(list, error)) continue;
    fail(ExitCode::data,
         "{}: a conversion was interrupted while it replaced the files of this folder, so they may be old or new; if "
         "no conversion is running, finish it: tfrecord_convert --finish --output {}",
         list.string(), shell_word(folder.empty() ? "." : folder.string()));
  }
}

}  // namespace carillon
