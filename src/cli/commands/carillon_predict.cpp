// carillon_predict: predicts the classes, labels or numbers of pictures with a trained network.
//
//   carillon_predict --checkpoint runs/pictures holiday/*.jpg
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/data/decoder.h"
#include "carillon/images/view.h"
#include "src/checkpoint/array_files.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/commands/commands.h"
#include "src/cli/launch/mpi_main.h"
#include "src/cli/launch/ranks.h"
#include "src/cli/options/option_set.h"
#include "src/core/text.h"
#include "src/core/text_file.h"
#include "src/data/convert/picture_file.h"
#include "src/data/convert/picture_folders.h"
#include "src/report/console.h"
#include "src/tasks/predictions.h"
#include "src/train/checkpointing/saved_network.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

struct PredictorSettings {
  std::size_t batch_size = 32;
  TrainedValues values = TrainedValues::moving_averages;
  bool test_time_augmentation = false;
};

/// Predicts the classes, labels or numbers of picture files with a trained network.
class PicturePredictor {
 public:
  /// `device` must outlive the predictor. Errors: data (the checkpoint is damaged), usage (a batch needs more than the
  /// host's memory).
  PicturePredictor(const LoadedCheckpoint& loaded, const PredictorSettings& settings, Device& device);

  const ImageShape& image_shape() const { return network_.image; }
  TargetKind target() const { return target_.kind; }
  std::size_t class_count() const { return class_names_.size(); }
  /// Returns the name of a class, label or number. If there is no name, returns the index as text.
  const std::string& class_name(std::size_t i) const { return class_names_[i]; }
  std::size_t batch_size() const { return settings_.batch_size; }
  /// Returns the colour behind transparent pixels, which is the same as in the training.
  const Colour& background() const { return decoding_.background; }

  /// Decodes a JPEG or PNG file and writes the network's input to `image`, which has image_shape().bytes() bytes. The
  /// input shows the same view of the picture as in evaluations (fitted_view). The input is grey if the network's
  /// images have one channel. Thread-safe. Errors: see decode_part.
  void read_image(std::span<const std::uint8_t> file, std::span<std::uint8_t> image) const;

  /// Returns one vector per image: the probabilities of the classes or labels, or the numbers. Accepts at most
  /// batch_size() images. Errors: failed (an output is not finite).
  std::vector<std::vector<double>> predict(std::span<const std::uint8_t* const> images);

 private:
  /// Converts the network's outputs for one image to probabilities or numbers.
  std::vector<double> prediction(std::span<const float> outputs) const;

  Network network_;
  PredictorSettings settings_;
  PictureDecoding decoding_;
  TrainedTarget target_;
  std::vector<std::string> class_names_;
  Evaluator evaluator_;
};

std::vector<std::string> output_names(const TrainedTarget& target) {
  std::vector<std::string> names = target.names;
  for (auto i = static_cast<std::int64_t>(names.size()); i < target.outputs; ++i) names.push_back(std::to_string(i));
  return names;
}

/// Returns `network` if a batch of pictures fits into the memory. Builds the network to find out. Errors: usage (the
/// batch does not fit).
const Network& fitting(const Network& network, const PredictorSettings& settings, const Device& device) {
  const auto batch_size = static_cast<std::int64_t>(settings.batch_size);
  check_batch_fits(build_network(network, {batch_size, Arithmetic::fp32, Purpose::evaluation}), device, 1,
                   {.option = fmt::format("--batch-size {} of {} x {} pixels", batch_size, network.image.height,
                                          network.image.width)});
  return network;
}

PicturePredictor::PicturePredictor(const LoadedCheckpoint& loaded, const PredictorSettings& settings, Device& device)
    : network_(network_of(loaded)),
      settings_(settings),
      decoding_(trained_decoding(loaded, network_.image)),
      target_(trained_target(loaded)),
      class_names_(output_names(target_)),
      evaluator_(fitting(network_, settings, device),
                 {.batch_size = static_cast<std::int64_t>(settings.batch_size),
                  .test_time_augmentation = settings.test_time_augmentation},
                 device) {
  if (network_.image.channels != 1 && network_.image.channels != 3) {
    fail(ExitCode::data, "{}: its network reads images with {} channels; pictures have 1 or 3", loaded.path.string(),
         network_.image.channels);
  }
  target_.scales.resize(class_names_.size());
  evaluator_.load(loaded, settings.values);
}

void PicturePredictor::read_image(std::span<const std::uint8_t> file, std::span<std::uint8_t> image) const {
  thread_local ViewMemory memory;
  thread_local std::vector<std::uint8_t> pixels;
  const ImageShape& shape = network_.image;
  PictureView view = fitted_view(picture_info(file), decoding_.fit, decoding_.shorter, shape.height, shape.width);
  view.background = decoding_.background;
  view.padding = decoding_.padding;
  if (shape.channels == 3) return render_view(file, view, decoding_.resampling, memory, image);
  const std::size_t size = static_cast<std::size_t>(shape.height * shape.width);
  pixels.resize(3 * size);
  render_view(file, view, decoding_.resampling, memory, pixels);
  for (std::size_t i = 0; i < size; ++i) {  // luma of ITU-R BT.601
    const std::uint8_t* const pixel = pixels.data() + 3 * i;
    image[i] = static_cast<std::uint8_t>((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000);
  }
}

std::vector<double> PicturePredictor::prediction(std::span<const float> outputs) const {
  std::vector<double> values;
  if (target_.kind == TargetKind::class_index) {
    const Softmax softmax(outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) values.push_back(softmax.probability(i));
    return values;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    values.push_back(target_.kind == TargetKind::labels ? label_probability(outputs[i])
                                                        : target_.scales[i].number(outputs[i]));
  }
  return values;
}

std::vector<std::vector<double>> PicturePredictor::predict(std::span<const std::uint8_t* const> images) {
  const std::size_t count = images.size(), batch_size = settings_.batch_size;
  check(count > 0 && count <= batch_size, "predict takes 1 to batch_size images");
  std::vector<const std::uint8_t*> padded(images.begin(), images.end());
  padded.resize(batch_size, images.back());
  const std::vector<float> logits = evaluator_.outputs({.images = padded, .padding = batch_size - count});
  std::vector<std::vector<double>> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const float> row = std::span(logits).subspan(i * class_count(), class_count());
    if (!std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); })) {
      fail(ExitCode::failed, "the output of the network is not finite");
    }
    all.push_back(prediction(row));
  }
  return all;
}

struct PredictOptions {
  std::string checkpoint, images;
  std::int64_t top = 3, batch_size = 32, threads = 0;
  double threshold = 0.5;
  bool json = false, csv = false, raw_weights = false, test_time_augmentation = false;
};

void declare(OptionSet& set, PredictOptions& o) {
  set.add("checkpoint", o.checkpoint, "checkpoint, or train directory: its newest good checkpoint");
  set.add("top", o.top, 1, 1'000'000, "classes to print, in descending order of probability (classification)");
  set.add("threshold", o.threshold, NumberRange::unit,
          "probability, 0 to 1, from which a label is printed (multilabel)");
  set.add("json", o.json, "print a JSON object per picture, on one line");
  set.add("csv", o.csv,
          "print a table with a line per picture: the file, the most probable class (classification), and a column for "
          "each class, label or number");
  set.add("raw-weights", o.raw_weights,
          "predict with the variables in place of their moving averages (if --moving-average-decay was above 0)");
  set.add("test-time-augmentation", o.test_time_augmentation,
          "predict from the mean over six views of each image, mirrored and shifted");
  set.add("images", o.images, "file for the network's input images, NAME.npz: [n, channels, height, width], 0 to 255");
  set.add("batch-size", o.batch_size, 1, 65536, "pictures per forward pass");
  set.add("threads", o.threads, 0, 4096, "CPU threads; 0: one per core");
}

/// Returns the files in `places`, and the pictures of the folders in `places` (scan_folder).
std::vector<fs::path> find_pictures(const std::vector<std::string>& places) {
  std::vector<fs::path> found;
  for (const std::string& place : places) {
    std::error_code error;
    if (!fs::is_directory(place, error)) {
      found.emplace_back(place);
      continue;
    }
    const FolderScan scan = scan_folder(place);
    if (scan.ignored.count > 0) {
      print_warning(fmt::format("ignored {} in {}: no picture, for example {}", count_text(scan.ignored.count, "file"),
                                printable(place), printable(scan.ignored.example.lexically_relative(place).string())));
    }
    if (scan.pictures.empty()) {
      fail(ExitCode::no_input, "{}: the folder contains no picture ({})", place, picture_endings);
    }
    found.insert(found.end(), scan.pictures.begin(), scan.pictures.end());
  }
  return found;
}

/// The images of files, decoded on all cores. Also has the errors of files that could not be decoded.
struct ReadImages {
  std::vector<std::uint8_t> memory;
  std::vector<std::exception_ptr> errors;  ///< one error per file; null if the image of the file was decoded

  ReadImages(const PicturePredictor& predictor, std::span<const fs::path> files)
      : memory(files.size() * predictor.image_shape().bytes()), errors(files.size()) {
    const std::size_t bytes = predictor.image_shape().bytes();
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < files.size(); ++i) {
      try {
        read(predictor, files[i], std::span(memory).subspan(i * bytes, bytes));
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  }

 private:
  /// Reads the file at `path` and decodes its network input to `image`. Errors: no_input, data, io; the message names
  /// the file.
  static void read(const PicturePredictor& predictor, const fs::path& path, std::span<std::uint8_t> image) {
    read_picture_or_copy(path, predictor.background(), [&](const std::string& file) {
      predictor.read_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, image);
    });
  }
};

void print_csv_header(const PicturePredictor& predictor) {
  std::string line = predictor.target() == TargetKind::class_index ? "file,class" : "file";
  for (std::size_t i = 0; i < predictor.class_count(); ++i) line.append(",").append(csv_field(predictor.class_name(i)));
  fmt::print("{}{}", line, csv_line_end);
}

/// Prints the line of a picture for --csv. `values`: one value per class, label or number.
void print_csv_line(const PicturePredictor& predictor, const fs::path& file, const std::vector<double>& values) {
  std::string line = csv_field(file.string());
  if (predictor.target() == TargetKind::class_index) {
    const auto best = static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
    line.append(",").append(csv_field(predictor.class_name(best)));
  }
  for (const double value : values) line += fmt::format(",{:.6g}", value);
  fmt::print("{}{}", line, csv_line_end);
}

void print_numbers(const PicturePredictor& predictor, const fs::path& file, const std::vector<double>& numbers,
                   const PredictOptions& options) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  std::string text = printable(file.string());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    values[predictor.class_name(i)] = numbers[i];
    text += fmt::format("  {} {:.6g}", printable(predictor.class_name(i)), numbers[i]);
  }
  if (options.json) {
    const nlohmann::ordered_json line{{"file", file.string()}, {"numbers", values}};
    text = printable_json(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  fmt::print("{}\n", text);
}

void print_prediction(const PicturePredictor& predictor, const fs::path& file, const std::vector<double>& probabilities,
                      const PredictOptions& options) {
  if (options.csv) return print_csv_line(predictor, file, probabilities);
  if (predictor.target() == TargetKind::numbers) return print_numbers(predictor, file, probabilities, options);
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return probabilities[i]; });
  if (predictor.target() == TargetKind::labels) {
    std::erase_if(order, [&](std::size_t i) { return probabilities[i] < options.threshold; });
  } else {
    order.resize(std::min(order.size(), static_cast<std::size_t>(options.top)));
  }
  if (options.json) {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const std::size_t i : order) {
      classes.push_back({{"class", predictor.class_name(i)}, {"index", i}, {"probability", probabilities[i]}});
    }
    const nlohmann::ordered_json line{{"file", file.string()}, {"predictions", classes}};
    fmt::print("{}\n", printable_json(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    return;
  }
  std::string text = printable(file.string());
  if (order.empty()) text += "  no label";
  for (const std::size_t i : order)
    text += fmt::format("  {} {:.4f}", printable(predictor.class_name(i)), probabilities[i]);
  fmt::print("{}\n", text);
}

/// Writes the images that are the network's inputs.
void write_images(const std::string& path, const PicturePredictor& predictor, const std::vector<std::uint8_t>& pixels) {
  const ImageShape& shape = predictor.image_shape();
  const std::size_t bytes = shape.bytes();
  std::vector<std::uint8_t> planes(pixels.size());
  for (std::size_t at = 0; at < pixels.size(); at += bytes) {
    pixels_to_planes(shape, std::span(pixels).subspan(at, bytes), std::span(planes).subspan(at, bytes));
  }
  NamedArray array{
      .name = "images",
      .shape = {static_cast<std::int64_t>(pixels.size() / bytes), shape.channels, shape.height, shape.width},
      .values = {planes.begin(), planes.end()}};
  const ListedArray listed{.name = array.name, .array = &array};
  write_npz(path, {&listed, 1});
}

int predict(const PredictOptions& options, const std::vector<std::string>& places) {
  if (!options.images.empty()) check_output(options.images);
  const std::vector<fs::path> files = find_pictures(places);
  const LoadedCheckpoint loaded = find_checkpoint(options.checkpoint, print_warning);
  const int threads = options.threads > 0 ? static_cast<int>(options.threads) : usable_cores();
  omp_set_num_threads(threads);
  const std::unique_ptr<Device> device = open_device({.choice = "cpu", .thread_count = threads});
  const PredictorSettings settings{.batch_size = std::min(static_cast<std::size_t>(options.batch_size), files.size()),
                                   .values = options.raw_weights || !has_moving_averages(loaded)
                                                 ? TrainedValues::variables
                                                 : TrainedValues::moving_averages,
                                   .test_time_augmentation = options.test_time_augmentation};
  PicturePredictor predictor(loaded, settings, *device);
  const std::size_t bytes = predictor.image_shape().bytes();
  if (options.csv) print_csv_header(predictor);
  std::vector<std::uint8_t> kept;
  ExitCode code = ExitCode::done;
  for (std::size_t first = 0; first < files.size(); first += settings.batch_size) {
    const auto some = std::span(files).subspan(first, std::min(settings.batch_size, files.size() - first));
    const ReadImages read(predictor, some);
    std::vector<const std::uint8_t*> images;
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!read.errors[i]) images.push_back(read.memory.data() + i * bytes);
    }
    std::vector<std::vector<double>> probabilities;
    if (!images.empty()) probabilities = predictor.predict(images);
    std::size_t predicted = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      try {
        if (read.errors[i]) std::rethrow_exception(read.errors[i]);
        print_prediction(predictor, some[i], probabilities[predicted], options);
        if (!options.images.empty()) kept.insert(kept.end(), images[predicted], images[predicted] + bytes);
        ++predicted;
      } catch (const Error& error) {  // reports the error and continues with the other pictures
        print_text(STDERR_FILENO, fmt::format("carillon_predict: {}\n", printable(error.what())));
        if (code == ExitCode::done) code = error.code();
      }
    }
  }
  if (!options.images.empty()) write_images(options.images, predictor, kept);
  return static_cast<int>(code);
}

OptionSet option_set(PredictOptions& options) {
  OptionSet set({.program = "carillon_predict",
                 .purpose = "Predicts the classes, labels or numbers of pictures with a trained network",
                 .synopses = {"carillon_predict --checkpoint FILE_OR_DIR PICTURE_OR_FOLDER..."},
                 .description =
                     "Reports each picture that cannot be read, and continues. The exit code shows the first fault:\n"
                     "65 damaged, 66 missing, 74 unreadable."});
  declare(set, options);
  set.set_version(version_text("carillon_predict"));
  return set;
}

int predict_main(int argc, char** argv) {
  PredictOptions options;
  std::vector<std::string> places;
  OptionSet set = option_set(options);
  if (!set.parse_or_answer(argc, argv, places)) return 0;
  for (const std::string& line : set.misspelt_variables()) print_warning(line);
  if (options.checkpoint.empty()) fail(ExitCode::usage, "--checkpoint FILE_OR_DIR is missing (see --help)");
  if (options.json && options.csv) fail(ExitCode::usage, "--json and --csv contradict each other: give one of them");
  if (places.empty()) fail(ExitCode::usage, "no pictures: name files or folders (see --help)");
  return predict(options, places);
}

}  // namespace

int carillon_predict_main(int argc, char** argv) {
  return single_process_main("carillon_predict", [&] { return predict_main(argc, argv); });
}

}  // namespace carillon
