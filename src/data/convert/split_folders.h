// Split folders: a folder of pictures that is already divided into train/ and val/ or test/.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

struct SplitFolder {
  std::string split;  ///< train, validation or test
  std::filesystem::path folder;
};

struct SplitFolders {
  std::vector<SplitFolder> splits;                ///< train first
  std::vector<std::filesystem::path> unlabelled;  ///< folders val or test with pictures but without folders of classes
};

/// Whether `folder` contains folders, and no pictures directly.
bool has_class_folders(const std::filesystem::path& folder);

/// Recognises a folder that contains train and at least one of val (also valid, validation) and test, in lower or upper
/// case. train must have one folder per class; val and test, too, or their pictures are not labelled. Nothing if
/// `input` is another folder, for example one with the classes train and test, or no folder. Errors: io; data (two
/// folders for one split; a further folder with pictures).
std::optional<SplitFolders> find_split_folders(const std::filesystem::path& input);

}  // namespace carillon
