// image_eval: prints the accuracy (precision @ 1) of a checkpoint of image_train.
//
//   image_eval --data 'data/pictures/validation-*' --checkpoint runs/pictures
#include "carillon/app/mains.h"

int main(int argc, char** argv) {
  return carillon::evaluation_main("image_eval", carillon::image_program(), argc, argv);
}
