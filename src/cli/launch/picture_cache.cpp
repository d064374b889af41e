#include "src/cli/launch/picture_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/data/record.h"
#include "carillon/images/decode.h"
#include "src/cli/launch/child_process.h"
#include "src/cli/launch/ranks.h"
#include "src/cli/options/option_set.h"
#include "src/core/crc32c.h"
#include "src/core/text.h"
#include "src/data/convert/convert_pictures.h"
#include "src/data/convert/picture_folders.h"
#include "src/data/convert/picture_list.h"
#include "src/data/convert/shard_writer.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/records/unfinished_conversion.h"
#include "src/train/loop/run_times.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr const char* stamp_name = "pictures.json";  ///< name of the file that describes the conversion of a folder of
                                                     ///< records
constexpr std::size_t max_stamp_bytes = std::size_t{1} << 20;

void write_stamp(const fs::path& data, const std::string& text) {
  write_file_atomically(data / stamp_name, std::as_bytes(std::span(text)), max_stamp_bytes);
}

/// Describes the records in `conversion.data`.
void write_stamp(const PictureIdentity& pictures, const Conversion& conversion,
                 const std::map<std::string, std::uintmax_t>& sizes) {
  const nlohmann::json json{{"pictures", pictures.path},
                            {"fingerprint", pictures.fingerprint},
                            {"contents", pictures.contents},
                            {"options", conversion.options},
                            {"files", sizes}};
  write_stamp(conversion.data, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

/// True if the file has a name that a conversion gives to its record files.
bool is_record_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return is_shard_of(name, "train") || is_shard_of(name, "validation") || is_shard_of(name, "test");
}

/// Returns the sizes of the record files in the folder, in bytes, by name. Errors: io.
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

/// Returns the pictures from which the records in `conversion.data` were made. Returns nullopt if the folder holds the
/// records of another conversion. Errors: io.
std::optional<PictureIdentity> converted_pictures(const Conversion& conversion) {
  const fs::path path = conversion.data / stamp_name;
  std::error_code absent;
  if (!fs::exists(path, absent)) return std::nullopt;
  const nlohmann::json json =
      nlohmann::json::parse(read_plain_file(path, path.string(), max_stamp_bytes), nullptr, false);
  try {
    const std::map<std::string, std::uintmax_t> sizes = json.at("files");
    const bool is_same =
        json.at("options") == conversion.options && !sizes.empty() && sizes == record_sizes(conversion.data);
    if (is_same) return PictureIdentity{json.at("pictures"), json.at("fingerprint"), json.value("contents", "")};
  } catch (const nlohmann::json::exception&) {
    // The stamp (the file that describes the conversion) of an incomplete conversion is not valid JSON.
  }
  return std::nullopt;
}

/// True if both identities describe the same unchanged folder, or two folders with the same contents.
bool same_pictures(const PictureIdentity& one, const PictureIdentity& other) {
  return (one.path == other.path && one.fingerprint == other.fingerprint) ||
         (!one.contents.empty() && one.contents == other.contents);
}

/// Returns the line that represents a file in the checksums of a folder. The file of the targets always has the name
/// "targets" in its line, because this file may be in any directory. `other`: the file's modification time
/// (fingerprint) or checksum (contents).
std::string line_of(const fs::path& file, const PictureFolder& pictures, std::uint64_t bytes, std::int64_t other) {
  const fs::path name = file == pictures.targets ? "targets" : file.lexically_relative(pictures.path);
  return fmt::format("{} {} {}\n", name.string(), bytes, other);
}

/// Returns a checksum of a picture's content, or 0 if the picture cannot be read.
std::uint32_t checksum_of(const fs::path& file) {
  std::array<std::byte, std::size_t{64} << 10> piece;
  std::uint32_t checksum = 0;
  try {
    const Descriptor descriptor = open_plain_file(file, file.string());
    for (std::size_t count = piece.size(); count == piece.size();) {
      if (read_all(descriptor.get(), piece, count) != 0) return 0;
      checksum = crc32c(std::span(piece).first(count), checksum);
    }
  } catch (const Error&) {
    return 0;
  }
  return checksum;
}

std::string checksum_text(std::size_t count, std::uint64_t bytes, std::uint32_t checksum) {
  return fmt::format("{} files, {} bytes, {:08x}", count, bytes, checksum);
}

/// Sets pictures.contents: reads all pictures, on all cores. Errors: stopped (a stop signal arrived).
void read_contents(PictureFolder& pictures) {
  const std::vector<fs::path>& files = pictures.files;
  std::vector<std::uint32_t> checksums(files.size());
  std::atomic<bool> is_stopped = false;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!is_stopped && stop_requested()) is_stopped = true;
    if (!is_stopped) checksums[i] = checksum_of(files[i]);
  }
  if (is_stopped)
    throw Error(ExitCode::stopped, "stopped while the pictures were read: the same command reads them again");
  std::uint32_t checksum = 0;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::uint64_t bytes = stamp_of(files[i]).value_or(FileStamp{}).bytes;
    const std::string line = line_of(files[i], pictures, bytes, checksums[i]);
    checksum = crc32c(std::as_bytes(std::span(line)), checksum);
    total += bytes;
  }
  pictures.contents = checksum_text(files.size(), total, checksum);
}

/// The files of a conversion that are not record files.
constexpr std::string_view descriptions[] = {dataset_info_name, class_names_file, "records.index",
                                             unfinished_conversion_name};

/// Checks that the folder holds only records that an earlier `carillon train` made. Errors: usage (it holds other
/// files).
void check_may_write(const fs::path& data) {
  std::error_code absent;
  if (fs::exists(data / stamp_name, absent)) return;
  for (const auto& entry : fs::directory_iterator(data, absent)) {
    const bool is_description =
        std::ranges::find(descriptions, entry.path().filename().string()) != std::end(descriptions);
    if (entry.path().extension() != ".tfrecord" && !is_description) continue;
    fail(ExitCode::usage, "{}: was not made by carillon train: name another folder with --data-dir",
         entry.path().string());
  }
}

/// Removes the records of an earlier conversion. Removes unfinished_conversion.txt last, because this file makes
/// readers refuse the records. Errors: io.
void clear(const fs::path& data) {
  std::vector<fs::path> ours;
  for (const auto& [name, bytes] : record_sizes(data)) ours.push_back(data / name);
  for (const std::string_view name : descriptions) ours.push_back(data / name);
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

/// Returns the median shape of at most 64 of the pictures. Ignores damaged files, and files that are neither JPEG nor
/// PNG.
UsualShape usual_shape(const std::vector<fs::path>& pictures) {
  constexpr std::size_t most = 64, max_bytes = std::size_t{1} << 28;
  std::vector<std::int64_t> sides;
  std::vector<double> elongations;
  for (std::size_t i = 0; i < pictures.size(); i += 1 + pictures.size() / most) {
    try {
      const std::string file = read_plain_file(pictures[i], pictures[i].string(), max_bytes);
      const PictureInfo info = picture_info({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
      const auto [shorter, longer] = std::minmax(info.height, info.width);
      sides.push_back(shorter);
      elongations.push_back(static_cast<double>(longer) / static_cast<double>(shorter));
    } catch (const Error&) {
      // The error is ignored here, because the conversion reports damaged files.
    }
  }
  if (sides.empty()) return {};
  return {.side = median(std::move(sides)), .elongation = median(std::move(elongations))};
}

/// Returns the path as one line of text. Errors: usage (the path is not UTF-8, is too long, or contains control
/// characters).
std::string line_path(const fs::path& path) {
  if (is_line(path.string()) && path.string().size() <= max_line_bytes) return path.string();
  fail(ExitCode::usage, "{}: rename it: the path must be UTF-8 of at most {} bytes, without control characters",
       path.string(), max_line_bytes);
}

/// Adds the pictures of a folder that has a folder per class.
void add_classes(const PictureSource& source, PictureFolder& found) {
  found.files = scan_folder(found.path).pictures;
  if (found.files.empty()) {
    fail(ExitCode::no_input, "{}: contains no pictures; create one folder of pictures per class",
         source.folder.string());
  }
  found.count = static_cast<std::int64_t>(found.files.size());
  const ClassFolders folders = find_class_folders(found.path, source.layout);
  found.has_splits = folders.splits && folders.splits->splits.size() > 1;
  const std::vector<fs::path> training =
      folders.splits ? scan_folder(folders.splits->splits.front().folder).pictures : found.files;
  found.training = static_cast<std::int64_t>(training.size());
  found.shape = usual_shape(training);
  found.text = fmt::format("{} classes ({})", folders.classes.size(), names_text(folders.classes));
  if (!folders.splits) return;
  std::vector<std::string> splits;
  for (const SplitFolder& split : folders.splits->splits) splits.push_back(split.split);
  found.text += fmt::format(", {} {}", splits.size() == 1 ? "split" : "splits", fmt::join(splits, ", "));
}

/// Adds the pictures that the file of the targets names.
void add_targets(const PictureSource& source, PictureFolder& found) {
  const PictureList list = list_targets(source.targets, found.path, source.target, std::nullopt);
  for (const ListedPicture& picture : list.pictures) found.files.push_back(picture.path);
  found.count = found.training = static_cast<std::int64_t>(found.files.size());
  found.shape = usual_shape(found.files);
  found.target = list.target;
  found.text = fmt::format("{} {} ({})", list.classes.size(),
                           list.classes.size() == 1 ? target_word(list.target) : target_words(list.target),
                           names_text(list.classes));
  found.targets = line_path(fs::canonical(source.targets));
  found.files.push_back(found.targets);
}

}  // namespace

PictureFolder look_through(const PictureSource& source) {
  const fs::path& folder = source.folder;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    const bool exists = fs::exists(folder, error);
    fail(
        exists ? ExitCode::usage : ExitCode::no_input, "{}: {}", folder.string(),
        exists ? "is a file: name the folder that holds a folder of pictures per class" : "no such folder of pictures");
  }
  PictureFolder found;
  found.path = line_path(fs::canonical(folder));
  if (source.targets.empty()) {
    add_classes(source, found);
  } else {
    add_targets(source, found);
  }
  std::uint32_t checksum = 0;
  std::uint64_t bytes = 0;
  for (const fs::path& file : found.files) {
    const FileStamp of_file = stamp_of(file).value_or(FileStamp{});
    const std::string line = line_of(file, found, of_file.bytes, of_file.changed_nanoseconds);
    checksum = crc32c(std::as_bytes(std::span(line)), checksum);
    bytes += of_file.bytes;
  }
  found.fingerprint = checksum_text(found.files.size(), bytes, checksum);
  return found;
}

bool are_unchanged(PictureFolder& pictures, const PictureIdentity& known) {
  if (same_pictures(pictures, known)) return true;
  // Both texts begin with the number and the size of the files. This function compares these numbers before it reads
  // all pictures.
  const auto size = [](const std::string& text) { return text.substr(0, text.rfind(',')); };
  const bool may_be_equal = !known.contents.empty() && size(known.contents) == size(pictures.fingerprint);
  if (!may_be_equal || !pictures.contents.empty()) return false;
  read_contents(pictures);
  return same_pictures(pictures, known);
}

std::vector<std::string> conversion_words(const PictureFolder& pictures, const Conversion& conversion) {
  return joined({"images", "--input", pictures.path, "--output", conversion.data.string()}, conversion.options);
}

bool holds_conversion(const PictureIdentity& pictures, const Conversion& conversion) {
  const std::optional<PictureIdentity> converted = converted_pictures(conversion);
  return converted && same_pictures(*converted, pictures);
}

namespace {

/// True if the folder holds the records of these pictures. In this case, sets pictures.contents and updates the path in
/// the folder's stamp.
bool use_records(PictureFolder& pictures, const Conversion& conversion) {
  const std::optional<PictureIdentity> converted = converted_pictures(conversion);
  if (!converted || !are_unchanged(pictures, *converted)) return false;
  pictures.contents = converted->contents;
  const bool has_moved = pictures.path != converted->path || pictures.fingerprint != converted->fingerprint;
  if (has_moved) write_stamp(pictures, conversion, record_sizes(conversion.data));
  return true;
}

}  // namespace

bool convert_if_changed(PictureFolder& pictures, const Conversion& conversion, const FolderLock& lock,
                        const Convert& convert) {
  constexpr int most_tries = 20;
  constexpr std::chrono::milliseconds pause(50);
  const auto refuse = [&] {
    fail(ExitCode::usage,
         "{}: another carillon train uses the records there, and this training needs others: name another folder with "
         "--data-dir",
         conversion.data.string());
  };
  int tries = 0;
  for (bool waits = false;; std::this_thread::sleep_for(pause)) {
    if (!lock.try_lock(FolderLock::Kind::shared)) {
      if (!std::exchange(waits, true)) {
        say(fmt::format("waits for another carillon train that converts pictures into {}", conversion.data.string()));
      }
    } else if (use_records(pictures, conversion)) {
      return true;
    } else if (lock.try_lock(FolderLock::Kind::exclusive)) {
      break;
      // Tries several times, because another run may hold a shared lock for a moment while that run checks whether the
      // folder contains the records of its pictures.
    } else if (++tries == most_tries) {
      refuse();
    }
    lock.unlock();
    if (stop_requested()) return false;
  }
  check_may_write(conversion.data);
  // Reads the contents of the pictures before the conversion. If a picture changes during the conversion, the next run
  // sees a difference and converts again.
  if (pictures.contents.empty()) read_contents(pictures);
  // The stamp is written before the records: if the conversion is interrupted, the next conversion may then remove the
  // records.
  write_stamp(conversion.data, "incomplete\n");
  clear(conversion.data);
  const auto code = static_cast<ExitCode>(convert(conversion_words(pictures, conversion)));
  if (code == ExitCode::stopped) return false;
  if (code != ExitCode::done) throw Error(code, "the conversion failed; see the message above");
  write_stamp(pictures, conversion, record_sizes(conversion.data));
  if (!lock.try_lock(FolderLock::Kind::shared)) refuse();  // another run took the exclusive lock between the two calls
  return true;
}

CachedRecords count_records(const fs::path& data) {
  return {.training = count_split(data, "train"),
          .validation = count_split(data, "validation"),
          .test = count_split(data, "test")};
}

std::string records_pattern(const fs::path& data, const std::string& split) {
  return escaped_pattern(data.string()) + "/" + split + "-*";
}

}  // namespace carillon
