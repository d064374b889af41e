#include "src/cli/launch/picture_cache.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/data/record.h"
#include "carillon/images/decode.h"
#include "src/cli/launch/ranks.h"
#include "src/core/crc32c.h"
#include "src/core/file_tools.h"
#include "src/core/text.h"
#include "src/data/convert/picture_list.h"
#include "src/data/convert/shard_writer.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr const char* stamp_name = "pictures.json";  ///< describes the conversion that made the records of a folder
constexpr std::size_t max_stamp_bytes = std::size_t{1} << 20;

nlohmann::json stamp(const PictureFolder& pictures, const Conversion& conversion) {
  return {{"pictures", pictures.path}, {"fingerprint", pictures.fingerprint}, {"options", conversion.options}};
}

void write_stamp(const fs::path& data, const std::string& text) {
  write_file_atomically(data / stamp_name, std::as_bytes(std::span(text)), max_stamp_bytes);
}

/// Whether the file has a name that the conversion gives to record files.
bool is_record_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return is_shard_of(name, "train") || is_shard_of(name, "validation") || is_shard_of(name, "test");
}

/// The sizes of the record files in the folder, in bytes, by name. Errors: io.
std::map<std::string, std::uintmax_t> record_sizes(const fs::path& data) {
  std::map<std::string, std::uintmax_t> sizes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(data, error)) {
    std::error_code vanished;
    if (is_record_file(entry.path())) sizes[entry.path().filename().string()] = entry.file_size(vanished);
  }
  if (error) fail(ExitCode::io, "{}: cannot list: {}", data.string(), error.message());
  return sizes;
}

/// The files of a conversion that are not record files.
constexpr const char* descriptions[] = {"records.json", "labels.txt", "records.index"};

/// Requires that the folder holds only records that an earlier `carillon train` made. Errors: usage.
void check_may_write(const fs::path& data) {
  std::error_code absent;
  if (fs::exists(data / stamp_name, absent)) return;
  for (const auto& entry : fs::directory_iterator(data, absent)) {
    const bool is_description = std::ranges::find(descriptions, entry.path().filename()) != std::end(descriptions);
    if (entry.path().extension() != ".tfrecord" && !is_description) continue;
    fail(ExitCode::usage, "{}: was not made by carillon train: name another folder with --data-dir",
         entry.path().string());
  }
}

/// Removes the records of an earlier conversion. Errors: io.
void clear(const fs::path& data) {
  std::vector<fs::path> ours;
  for (const char* const name : descriptions) ours.push_back(data / name);
  for (const auto& [name, bytes] : record_sizes(data)) ours.push_back(data / name);
  for (const fs::path& path : ours) remove_file(path);
}

std::int64_t count_split(const fs::path& data, const std::string& split) {
  std::int64_t count = 0;
  for (const auto& [name, bytes] : record_sizes(data)) {
    if (!is_shard_of(name, split)) continue;
    RecordReader reader((data / name).string(), RecordCheck::framing);
    for (RecordPlace place; reader.next_place(place);) ++count;
  }
  return count;
}

/// The median length of the shorter side, over at most 64 of the pictures. Ignores damaged files and files that are
/// neither JPEG nor PNG. 0: no file could be read.
std::int64_t usual_side(const std::vector<fs::path>& pictures) {
  constexpr std::size_t most = 64, max_bytes = std::size_t{1} << 28;
  std::vector<std::int64_t> sides;
  for (std::size_t i = 0; i < pictures.size(); i += 1 + pictures.size() / most) {
    try {
      const std::string file = read_plain_file(pictures[i], pictures[i].string(), max_bytes);
      const PictureInfo info = picture_info({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
      sides.push_back(std::min(info.height, info.width));
    } catch (const Error&) {
      // the conversion reports damaged files
    }
  }
  if (sides.empty()) return 0;
  const auto middle = sides.begin() + static_cast<std::ptrdiff_t>(sides.size() / 2);
  std::ranges::nth_element(sides, middle);
  return *middle;
}

}  // namespace

PictureFolder look_through(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    const bool exists = fs::exists(folder, error);
    fail(
        exists ? ExitCode::usage : ExitCode::no_input, "{}: {}", folder.string(),
        exists ? "is a file: name the folder that holds a folder of pictures per class" : "no such folder of pictures");
  }
  const fs::path path = fs::canonical(folder);
  PictureFolder found{.path = path.string()};
  if (!is_line(found.path) || found.path.size() > max_line_bytes) {
    fail(ExitCode::usage,
         "{}: rename the folder: its path must be UTF-8 of at most {} bytes, without control characters", found.path,
         max_line_bytes);
  }
  std::uint32_t checksum = 0;
  std::uint64_t bytes = 0;
  const std::vector<fs::path> all = pictures_in(path);
  for (const fs::path& file : all) {
    const FileStamp of_file = stamp_of(file).value_or(FileStamp{});
    const std::string line =
        fmt::format("{} {} {}\n", file.lexically_relative(path).string(), of_file.bytes, of_file.changed_nanoseconds);
    checksum = crc32c(std::as_bytes(std::span(line)), checksum);
    bytes += of_file.bytes;
    ++found.count;
  }
  const std::optional<SplitFolders> splits = find_split_folders(path);
  found.has_splits = splits.has_value();
  const std::vector<fs::path> training = splits ? pictures_in(splits->splits.front().folder) : all;
  found.training = static_cast<std::int64_t>(training.size());
  found.side = usual_side(training);
  if (found.count == 0) {
    fail(ExitCode::no_input, "{}: contains no pictures; create one folder of pictures per class", folder.string());
  }
  found.fingerprint = fmt::format("{} files, {} bytes, {:08x}", found.count, bytes, checksum);
  return found;
}

std::vector<std::string> conversion_words(const PictureFolder& pictures, const Conversion& conversion) {
  std::vector<std::string> words{"images", "--input", pictures.path, "--output", conversion.data.string()};
  words.insert(words.end(), conversion.options.begin(), conversion.options.end());
  return words;
}

bool holds_conversion(const PictureFolder& pictures, const Conversion& conversion) {
  const fs::path path = conversion.data / stamp_name;
  std::error_code absent;
  if (!fs::exists(path, absent)) return false;
  nlohmann::json found = nlohmann::json::parse(read_plain_file(path, path.string(), max_stamp_bytes), nullptr, false);
  if (!found.is_object()) return false;
  const nlohmann::json files = found.value("files", nlohmann::json());
  found.erase("files");
  return found == stamp(pictures, conversion) && !files.empty() && files == record_sizes(conversion.data);
}

bool convert_if_changed(const PictureFolder& pictures, const Conversion& conversion, const FolderLock& lock,
                        const Convert& convert) {
  const auto take = [&](FolderLock::Kind kind) {
    if (lock.try_lock(kind)) return;
    fail(ExitCode::usage, "{}: another carillon train uses these records: name another folder with --data-dir",
         conversion.data.string());
  };
  take(FolderLock::Kind::shared);
  if (holds_conversion(pictures, conversion)) return true;
  take(FolderLock::Kind::exclusive);
  check_may_write(conversion.data);
  // The stamp comes first: if the conversion is interrupted, the next one may remove its records.
  write_stamp(conversion.data, "incomplete\n");
  clear(conversion.data);
  const auto code = static_cast<ExitCode>(convert(conversion_words(pictures, conversion)));
  if (code == ExitCode::stopped) return false;
  if (code != ExitCode::done) throw Error(code, "the conversion failed; see the message above");
  nlohmann::json made = stamp(pictures, conversion);
  made["files"] = record_sizes(conversion.data);
  write_stamp(conversion.data, made.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  take(FolderLock::Kind::shared);
  return true;
}

CachedRecords count_records(const fs::path& data) {
  return {.training = count_split(data, "train"),
          .validation = count_split(data, "validation"),
          .test = count_split(data, "test")};
}

std::string records_pattern(const fs::path& data, const std::string& split) {
  std::string pattern;
  for (const char c : data.string()) {
    if (c == '*' || c == '?' || c == '[') {
      pattern += {'[', c, ']'};
    } else if (c == '\\') {
      pattern += "\\\\";
    } else {
      pattern += c;
    }
  }
  return pattern + "/" + split + "-*";
}

FolderLock::FolderLock(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // a failure is reported below
  const std::filesystem::path path = folder / ".carillon.lock";
  file_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT, 0644));  // without O_CLOEXEC: children inherit the lock
  if (file_.get() < 0) fail(ExitCode::io, "{}: cannot write: {}", path.string(), errno_text(errno));
}

bool FolderLock::try_lock(Kind kind) const {
  return carillon::try_lock(file_.get(), kind == Kind::exclusive) != LockOutcome::held;
}

}  // namespace carillon
