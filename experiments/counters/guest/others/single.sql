create table numbers as select n, n * n as square from generate_series(1, 5000) n;
select count(*), sum(square) from numbers where n % 7 = 3;
create index on numbers (square);
select n from numbers where square = 12321;
