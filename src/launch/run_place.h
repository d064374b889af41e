// Run place: the run, checkpoint or file that the first argument of a command names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace carillon {

/// The first word of a command, and the others.
struct Place {
  std::filesystem::path path;
  std::vector<std::string> others;
};

/// `what`: the name of the first word in messages. Errors: usage (it is missing, or an option), no_input (there is
/// nothing of this name).
Place place_in(const std::vector<std::string>& words, const std::string& command, const std::string& what);

/// The page that describes the evaluated network.
std::filesystem::path report_page(const std::filesystem::path& train_dir);

/// The checkpoint to evaluate and to predict with: the best one of the train directory if there is one, else the
/// directory, which stands for its newest.
std::filesystem::path trained_network(const std::filesystem::path& train_dir);

/// The checkpoint that `place` stands for: itself, or the trained network of a train directory.
std::filesystem::path checkpoint_of(const std::filesystem::path& place);

/// The train directory, if `run` is a train directory or a checkpoint in one.
std::filesystem::path folder_of(const std::filesystem::path& run);

}  // namespace carillon
