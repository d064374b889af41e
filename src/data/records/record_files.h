// Record files: hints for users who named a folder, a check that no shard is missing, and a command that decompresses a
// file.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace carillon {

/// Returns a hint for the end of a message to a user who named a folder. The hint shows a pattern such as
/// 'data/train-*' for the first of `splits` that has files in the folder. If no split has files there, the hint shows
/// one of the record files.
std::string record_files_hint(const std::filesystem::path& directory, std::span<const std::string_view> splits);

/// The usual prefixes of the names of record files.
inline constexpr std::string_view training_splits[] = {"train"};
inline constexpr std::string_view evaluation_splits[] = {"test", "validation", "val"};
inline constexpr std::string_view all_splits[] = {"train", "validation", "test"};

/// Checks that no shard is missing. A name such as train-00002-of-00004.tfrecord states the number of shards. `paths`
/// need not contain all shards, but all shards must exist. Errors: no_input; the message names the first missing file.
void check_shards_exist(std::span<const std::string> paths);

/// Describes --allow-missing-shards.
inline constexpr const char* missing_shards_help =
    "accept an incomplete set of shards (train-00000-of-00004 states 4); otherwise the first missing shard ends the "
    "program";

/// Returns a command for a shell that decompresses a GZIP file and replaces it by the result.
std::string decompressing(const std::string& path);

}  // namespace carillon
