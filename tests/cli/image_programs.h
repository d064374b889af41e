// Fixture of the tests that run image_train, image_eval and carillon_predict as a user does.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/images/picture.h"
#include "tests/data/program_fixture.h"

namespace carillon {

namespace fs = std::filesystem;

/// Has records of two classes, red and blue, which a network learns in a few steps. The pictures are converted once.
class ImageProgramsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / fmt::format("carillon.images.{}", ::getpid());
    for (int i = 0; i < 40; ++i) put(i % 2 == 0 ? "blue" : "red", i);
    ASSERT_EQ(
        run("tfrecord_convert images --input " + at("in") + " --output " + at("set") + " --validation-share 0.2").code,
        0);
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static std::string at(const std::string& name) { return (root_ / name).string(); }

  /// Writes a picture of stripes. The size of the picture depends on i.
  static void put(const std::string& name, int i) {
    Picture picture{.height = 20 + i % 7, .width = 30 - i % 5, .channels = 3, .pixels = {}};
    for (std::int64_t p = 0; p < picture.height * picture.width; ++p) {
      const auto shade = static_cast<std::uint8_t>((p * (i + 3)) % 90);
      const auto strong = static_cast<std::uint8_t>(200 + shade / 2);
      const bool is_red = name == "red";
      for (const std::uint8_t value : {is_red ? strong : shade, shade, is_red ? shade : strong}) {
        picture.pixels.push_back(value);
      }
    }
    fs::create_directories(root_ / "in" / name);
    const std::string file = encode_jpeg(picture, 90);
    std::ofstream(root_ / "in" / name / fmt::format("{:02}.jpg", i), std::ios::binary) << file;
  }

  static Outcome run(const std::string& command, const std::string& launcher = "") {
    return run_program(command, launcher);
  }
  static std::string train(const std::string& directory, const std::string& more) {
    return "image_train --model resnet9 --image-size 16 --batch-size 8 --learning-rate 0.05 --data '" +
           at("set/train-*") + "' --train-dir " + at(directory) + " " + more;
  }
  static void expect_done(const std::string& command, const std::string& launcher = "") {
    const Outcome outcome = run(command, launcher);
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome.output;
  }
  static void expect_failure(const std::string& command, ExitCode code, const std::string& text) {
    expect_one_line(run(command), code, text);
  }
  /// Expects that the variables in two train directories differ. Options such as the seed and the names of directories
  /// always differ.
  static void expect_other_variables(const std::string& a, const std::string& b) {
    const Outcome outcome = run("checkpoint_tool diff " + at(a) + " " + at(b));
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, ::testing::HasSubstr("variables/"));
  }
  /// Expects that the last checkpoints of two train directories have the same arrays.
  static void expect_same_arrays(const std::string& a, const std::string& b) {
    const Outcome outcome = run("checkpoint_tool diff --arrays " + at(a) + " " + at(b));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }

  inline static fs::path root_;
};

inline constexpr const char* two_ranks = "mpirun --allow-run-as-root --oversubscribe -np 2 ";
inline constexpr const char* four_ranks = "mpirun --allow-run-as-root --oversubscribe -np 4 ";

}  // namespace carillon
