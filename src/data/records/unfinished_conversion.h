// Replaces all files of a conversion together. Afterwards, either all files have their final names, or a file in the
// folder states that the conversion is unfinished.
//
// 1. All new files are complete and synced, and have hidden temporary names.
// 2. The file unfinished_conversion.txt is written. It lists each new file with its temporary name.
// 3. The new files are renamed to their final names.
// 4. unfinished_conversion.txt is removed.
//
// A process that is killed before step 2 leaves the old files. A process that is killed later leaves
// unfinished_conversion.txt, so readers refuse the folder, and finish_conversion repeats steps 3 and 4.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "carillon/core/file.h"

namespace carillon {

inline constexpr std::string_view unfinished_conversion_name = "unfinished_conversion.txt";
/// Prefix of the temporary names. It hides the files from patterns such as train-*.
inline constexpr std::string_view temporary_prefix = ".";

/// Renames the finished `files` of `directory` to their final names. If an error occurs after the first rename,
/// finish_conversion can rename the rest. Errors: io.
void replace_together(const std::filesystem::path& directory, std::span<const std::unique_ptr<NewFile>> files);

/// Finishes the interrupted conversion in `directory`, if there is one. Returns whether there was one. Errors: io; data
/// (unfinished_conversion.txt has unexpected contents, or one of the new files is missing).
bool finish_conversion(const std::filesystem::path& directory);

/// Checks that no folder of `paths` holds an unfinished conversion. Errors: data (the message contains the command that
/// finishes the conversion).
void check_conversions_finished(std::span<const std::string> paths);

}  // namespace carillon
