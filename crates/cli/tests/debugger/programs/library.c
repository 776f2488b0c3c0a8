__thread int libs = 40;
__thread char room[5000];
